package interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The client writes what happened to its messages into the trace topic, as messages. */
final class Traces {
    private static final String TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC";

    private Traces() {
    }

    static void trace(Fixture fixture, Map<String, Object> facts) throws Exception {
        DefaultMQProducer producer = fixture.started(
                new DefaultMQProducer(fixture.group("P"), null, true, null));
        List<Object> sent = new ArrayList<>();
        for (int number = 0; number < 3; number++) {
            String label = "traced-" + number;
            sent.add(Fixture.sent(label, producer.send(fixture.message(label, "TagA"))));
        }
        List<Map<String, Object>> found = Fixture.list();
        DefaultMQPushConsumer consumer = fixture.own(new DefaultMQPushConsumer(
                fixture.group("C"), null, new AllocateMessageQueueAveragely(), true, null));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(fixture.topic, "*");
        consumer.registerMessageListener(Pushes.into(found));
        fixture.start(consumer);
        Fixture.settle(() -> found.size() >= 3);
        facts.put("sent", sent);
        facts.put("received", Pushes.copy(found));
        facts.put("traces", traces(fixture));
    }

    /** Records of the trace topic about this topic: kind, then fields, separated by 0x01. */
    private static List<Object> traces(Fixture fixture) throws Exception {
        DefaultLitePullConsumer reader = fixture.litePull("T");
        reader.setAutoCommit(false);
        fixture.start(reader);
        List<MessageQueue> queues = new ArrayList<>();
        Fixture.await(() -> {
            try {
                queues.addAll(reader.fetchMessageQueues(TRACE_TOPIC));
            } catch (Exception notYet) {
                return false; // created by the first trace
            }
            return !queues.isEmpty();
        }, 20);
        List<Object> records = new ArrayList<>();
        if (queues.isEmpty()) {
            return records;
        }
        reader.assign(queues);
        for (MessageQueue queue : queues) {
            reader.seek(queue, 0);
        }
        long end = System.nanoTime() + 12_000_000_000L;
        while (System.nanoTime() < end && records.size() < 9) {
            for (MessageExt message : reader.poll(300)) {
                for (String record : Fixture.text(message.getBody()).split("\u0002")) {
                    if (record.contains(fixture.topic)) {
                        records.add(record);
                    }
                }
            }
        }
        return records;
    }
}
