package interop;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;

/** Push consumers: shared among members, in order, to everyone, and going on where a group was. */
final class Pushes {
    private static final int COUNT = 60;

    private Pushes() {
    }

    /** Half is sent before two members join, half when both have queues. */
    static void concurrent(Fixture fixture, Map<String, Object> facts) throws Exception {
        DefaultMQProducer producer = fixture.producer();
        List<Object> sent = new ArrayList<>();
        send(fixture, producer, sent, 0, COUNT / 2);
        List<Map<String, Object>> first = collect(fixture, "C");
        List<Map<String, Object>> second = collect(fixture, "C");
        Fixture.await(() -> first.size() + second.size() >= COUNT / 2, 30);
        // The second member takes half of the queues as soon as it is known to the first.
        Thread.sleep(2_000);
        send(fixture, producer, sent, COUNT / 2, COUNT);
        Fixture.settle(() -> labels(first, second).size() >= COUNT);
        facts.put("sent", sent);
        facts.put("first", copy(first));
        facts.put("second", copy(second));
    }

    private static void send(
            Fixture fixture, DefaultMQProducer producer, List<Object> sent, int from, int to)
            throws Exception {
        for (int number = from; number < to; number++) {
            String label = "push-" + number;
            sent.add(Fixture.sent(label, producer.send(fixture.message(label, "TagA"))));
        }
    }

    /** A started consumer of group `role`, and what it receives. */
    private static List<Map<String, Object>> collect(Fixture fixture, String role) throws Exception {
        List<Map<String, Object>> found = Fixture.list();
        DefaultMQPushConsumer consumer = fixture.pushConsumer(role);
        consumer.subscribe(fixture.topic, "*");
        consumer.registerMessageListener(into(found));
        fixture.start(consumer);
        return found;
    }

    static MessageListenerConcurrently into(List<Map<String, Object>> found) {
        return (messages, context) -> {
            for (MessageExt message : messages) {
                found.add(Fixture.received(message));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
    }

    static <T> List<T> copy(List<T> found) {
        synchronized (found) {
            return new ArrayList<>(found);
        }
    }

    @SafeVarargs
    static Set<Object> labels(List<Map<String, Object>>... lists) {
        Set<Object> labels = new HashSet<>();
        for (List<Map<String, Object>> list : lists) {
            for (Map<String, Object> one : copy(list)) {
                labels.add(one.get("label"));
            }
        }
        return labels;
    }

    /** Four chains of ten, each on one queue; one message of a chain is refused twice. */
    static void orderly(Fixture fixture, Map<String, Object> facts) throws Exception {
        DefaultMQProducer producer = fixture.producer();
        List<Object> sent = new ArrayList<>();
        for (int number = 0; number < 40; number++) {
            int chain = number % 4;
            String label = "chain" + chain + "-" + number / 4;
            sent.add(Fixture.sent(label, producer.send(
                    fixture.message(label, "TagA"), (queues, message, key) -> queues.get((Integer) key), chain)));
        }
        List<Map<String, Object>> found = Fixture.list();
        List<Object> refused = Fixture.list();
        DefaultMQPushConsumer consumer = fixture.pushConsumer("C");
        consumer.subscribe(fixture.topic, "*");
        consumer.setSuspendCurrentQueueTimeMillis(200);
        consumer.setConsumeMessageBatchMaxSize(1);
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            for (MessageExt message : messages) {
                if ("chain2-4".equals(message.getUserProperty("label")) && refused.size() < 2) {
                    refused.add(message.getQueueOffset());
                    return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                }
                found.add(Fixture.received(message));
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        fixture.start(consumer);
        Fixture.settle(() -> found.size() >= 40);
        facts.put("sent", sent);
        facts.put("received", copy(found));
        facts.put("refused", copy(refused));
    }

    static void broadcast(Fixture fixture, Map<String, Object> facts) throws Exception {
        List<List<Map<String, Object>>> members = new ArrayList<>();
        for (int member = 0; member < 2; member++) {
            List<Map<String, Object>> found = Fixture.list();
            DefaultMQPushConsumer consumer = fixture.pushConsumer("B");
            Fixture.broadcasting(consumer);
            consumer.subscribe(fixture.topic, "*");
            consumer.registerMessageListener(into(found));
            fixture.start(consumer);
            members.add(found);
        }
        DefaultMQProducer producer = fixture.producer();
        List<Object> sent = new ArrayList<>();
        send(fixture, producer, sent, 0, 20);
        Fixture.settle(() -> members.get(0).size() >= 20 && members.get(1).size() >= 20);
        facts.put("sent", sent);
        facts.put("first", copy(members.get(0)));
        facts.put("second", copy(members.get(1)));
    }

    /** A group that stops and comes back goes on behind what it had consumed. */
    static void progress(Fixture fixture, Map<String, Object> facts) throws Exception {
        DefaultMQProducer producer = fixture.producer();
        List<Object> sent = new ArrayList<>();
        send(fixture, producer, sent, 0, 20);
        List<Map<String, Object>> before = Fixture.list();
        DefaultMQPushConsumer consumer = fixture.pushConsumer("C");
        consumer.subscribe(fixture.topic, "*");
        consumer.registerMessageListener(into(before));
        consumer.start();
        Fixture.settle(() -> before.size() >= 20);
        consumer.shutdown(); // stores the offsets
        send(fixture, producer, sent, 20, 40);
        List<Map<String, Object>> after = collect(fixture, "C");
        Fixture.settle(() -> after.size() >= 20);
        facts.put("sent", sent);
        facts.put("before", copy(before));
        facts.put("after", copy(after));
    }
}
