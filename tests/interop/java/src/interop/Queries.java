package interop;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Finding messages by what is known of them, and the borders of a queue. */
final class Queries {
    private Queries() {
    }

    static void query(Fixture fixture, Map<String, Object> facts) throws Exception {
        DefaultMQProducer producer = fixture.producer();
        long began = System.currentTimeMillis();
        List<Object> sent = new ArrayList<>();
        SendResult last = null;
        for (int number = 0; number < 12; number++) {
            String label = "q-" + number;
            Message message = fixture.message(label, "TagA");
            message.setKeys("k-" + label + " shared");
            last = producer.send(message);
            sent.add(Fixture.sent(label, last));
        }
        long end = System.currentTimeMillis() + 1000;
        facts.put("sent", sent);
        facts.put("by_key", labels(producer.queryMessage(fixture.topic, "k-q-7", 32, began - 1000, end).getMessageList()));
        facts.put("by_shared_key", labels(producer.queryMessage(fixture.topic, "shared", 32, began - 1000, end).getMessageList()));
        facts.put("by_key_at_most_5", labels(producer.queryMessage(fixture.topic, "shared", 5, began - 1000, end).getMessageList()));
        facts.put("by_unknown_key", none(fixture, producer, "nobody", began - 1000, end));
        facts.put("by_key_too_early", none(fixture, producer, "k-q-7", began - 60_000, began - 50_000));
        facts.put("by_unique_key", Fixture.received(producer.viewMessage(fixture.topic, last.getMsgId())));
        facts.put("by_offset_id", Fixture.received(producer.viewMessage(fixture.topic, last.getOffsetMsgId())));
        facts.put("queues", borders(fixture, producer, began));
    }

    private static List<Object> labels(List<MessageExt> messages) {
        List<Object> labels = new ArrayList<>();
        for (MessageExt message : messages) {
            labels.add(message.getUserProperty("label"));
        }
        return labels;
    }

    /** What the client says when nothing is found: an exception with this code. */
    private static Object none(
            Fixture fixture, DefaultMQProducer producer, String key, long begin, long end)
            throws Exception {
        try {
            return labels(producer.queryMessage(fixture.topic, key, 32, begin, end).getMessageList());
        } catch (MQClientException error) {
            return error.getResponseCode();
        }
    }

    private static List<Object> borders(Fixture fixture, DefaultMQProducer producer, long began)
            throws Exception {
        List<Object> found = new ArrayList<>();
        for (MessageQueue queue : producer.fetchPublishMessageQueues(fixture.topic)) {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("broker", queue.getBrokerName());
            one.put("queue", queue.getQueueId());
            one.put("min", producer.minOffset(queue));
            one.put("max", producer.maxOffset(queue));
            one.put("at_time_before", producer.searchOffset(queue, began - 1000));
            one.put("at_time_after", producer.searchOffset(queue, began + 3_600_000));
            one.put("earliest_ms_after_start", producer.earliestMsgStoreTime(queue) - began);
            found.add(one);
        }
        return found;
    }
}
