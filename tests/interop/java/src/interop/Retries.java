package interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** What a consumer refuses comes again later, and at last is kept apart. */
final class Retries {
    private Retries() {
    }

    /** Five messages, two of them refused always: delivered 1 + 2 times, then dead letters. */
    static void toDeadLetters(Fixture fixture, Map<String, Object> facts) throws Exception {
        List<Object> sent = send(fixture, 5);
        List<Map<String, Object>> found = Fixture.list();
        DefaultMQPushConsumer consumer = fixture.pushConsumer("C");
        consumer.setMaxReconsumeTimes(2);
        consumer.setConsumeMessageBatchMaxSize(1);
        consumer.subscribe(fixture.topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            boolean bad = false;
            for (MessageExt message : messages) {
                found.add(Fixture.received(message));
                String label = message.getUserProperty("label");
                bad |= "retry-1".equals(label) || "retry-3".equals(label);
            }
            context.setDelayLevelWhenNextConsume(1); // one second
            return bad ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                    : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        fixture.start(consumer);
        Fixture.await(() -> found.size() >= 3 + 2 * 3, 60);
        facts.put("sent", sent);
        facts.put("dead", deadLetters(fixture));
        facts.put("received", Pushes.copy(found));
    }

    private static List<Object> send(Fixture fixture, int count) throws Exception {
        DefaultMQProducer producer = fixture.producer();
        List<Object> sent = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            String label = "retry-" + number;
            sent.add(Fixture.sent(label, producer.send(fixture.message(label, "TagA"))));
        }
        return sent;
    }

    private static List<Object> deadLetters(Fixture fixture) throws Exception {
        DefaultLitePullConsumer reader = fixture.litePull("D");
        reader.setAutoCommit(false);
        fixture.start(reader);
        List<MessageQueue> queues = new ArrayList<>();
        Fixture.await(() -> {
            try {
                queues.addAll(reader.fetchMessageQueues("%DLQ%" + fixture.group("C")));
            } catch (Exception notYet) {
                return false; // the topic appears with its first message
            }
            return !queues.isEmpty();
        }, 20);
        List<Object> dead = new ArrayList<>();
        if (queues.isEmpty()) {
            return dead;
        }
        reader.assign(queues);
        for (MessageQueue queue : queues) {
            reader.seek(queue, 0);
        }
        long end = System.nanoTime() + 8_000_000_000L;
        while (System.nanoTime() < end) {
            for (MessageExt message : reader.poll(300)) {
                Map<String, Object> one = Fixture.received(message);
                one.put("origin_id", message.getProperty("ORIGIN_MESSAGE_ID"));
                one.put("origin_topic", message.getProperty("RETRY_TOPIC"));
                dead.add(one);
            }
        }
        return dead;
    }

    /** With nothing said about the delay, the first one is level 3: ten seconds. */
    static void firstLevel(Fixture fixture, Map<String, Object> facts) throws Exception {
        List<Object> sent = send(fixture, 1);
        List<Map<String, Object>> found = Fixture.list();
        DefaultMQPushConsumer consumer = fixture.pushConsumer("C");
        consumer.subscribe(fixture.topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                Map<String, Object> one = Fixture.received(message);
                one.put("topic", message.getTopic());
                found.add(one);
            }
            return found.size() > 1 ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                    : ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        fixture.start(consumer);
        // A new group's retry topic has a route after the next poll, 30 s, and queues after the next
        // rebalance, 20 s: that is the client's pace, whatever the broker does.
        Fixture.await(() -> found.size() >= 2, 60);
        facts.put("sent", sent);
        facts.put("received", Pushes.copy(found));
    }
}
