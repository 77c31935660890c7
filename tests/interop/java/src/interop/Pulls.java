package interop;

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Lite pull: a member of a group, and queues chosen by hand. */
final class Pulls {
    private Pulls() {
    }

    static void subscribe(Fixture fixture, Map<String, Object> facts) throws Exception {
        List<Object> sent = send(fixture, 30);
        DefaultLitePullConsumer consumer = fixture.litePull("L");
        consumer.subscribe(fixture.topic, "*");
        consumer.setAutoCommit(false);
        fixture.start(consumer);
        List<Object> received = poll(consumer, 30);
        consumer.commitSync();
        facts.put("sent", sent);
        facts.put("received", received);
        // The positions are sent oneway; what the broker answers later must be all that was read.
        Map<String, Object> committed = new LinkedHashMap<>();
        Fixture.await(() -> total(fixture, consumer, committed) >= 30, 10);
        facts.put("committed", committed);
    }

    private static List<Object> send(Fixture fixture, int count) throws Exception {
        DefaultMQProducer producer = fixture.producer();
        List<Object> sent = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            String label = "pull-" + number;
            sent.add(Fixture.sent(label, producer.send(fixture.message(label, "TagA"))));
        }
        return sent;
    }

    private static List<Object> poll(DefaultLitePullConsumer consumer, int count) {
        List<Object> received = new ArrayList<>();
        long end = System.nanoTime() + Fixture.WAIT_SECONDS_MAX * 1_000_000_000L;
        while (received.size() < count && System.nanoTime() < end) {
            for (MessageExt message : consumer.poll(500)) {
                received.add(Fixture.received(message));
            }
        }
        for (MessageExt message : consumer.poll(500)) {
            received.add(Fixture.received(message));
        }
        return received;
    }

    private static long total(
            Fixture fixture, DefaultLitePullConsumer consumer, Map<String, Object> committed) {
        long total = 0;
        try {
            for (MessageQueue queue : consumer.fetchMessageQueues(fixture.topic)) {
                long offset = consumer.committed(queue);
                committed.put(queue.getBrokerName() + "/" + queue.getQueueId(), offset);
                total += Math.max(offset, 0);
            }
        } catch (Exception error) {
            committed.put("error", String.valueOf(error));
        }
        return total;
    }

    static void assign(Fixture fixture, Map<String, Object> facts) throws Exception {
        List<Object> sent = send(fixture, 40);
        DefaultLitePullConsumer consumer = fixture.litePull("A");
        consumer.setAutoCommit(false);
        fixture.start(consumer);
        Collection<MessageQueue> queues = consumer.fetchMessageQueues(fixture.topic);
        consumer.assign(queues);
        facts.put("sent", sent);
        facts.put("queues", queues.size());
        // Assigned queues are pulled at once, and a pull that is under way when its queue is sought
        // may still be handed out (DefaultLitePullConsumerImpl): so everything is read first.
        facts.put("before", poll(consumer, 40));
        for (MessageQueue queue : queues) {
            consumer.seek(queue, 5);
        }
        facts.put("received", poll(consumer, 40 - 5 * queues.size()));
        Map<String, Object> ends = new LinkedHashMap<>();
        for (MessageQueue queue : queues) {
            // The first offset at or behind a time: 0 is the beginning.
            ends.put(queue.getBrokerName() + "/" + queue.getQueueId(), consumer.offsetForTimestamp(queue, 0L));
        }
        facts.put("offsets_of_time_0", ends);
    }
}
