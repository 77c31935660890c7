package interop;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;

/** Messages that arrive later: 18 fixed levels, and any time (5.x). */
final class Delays {
    private Delays() {
    }

    static void levels(Fixture fixture, Map<String, Object> facts) throws Exception {
        List<Map<String, Object>> found = listen(fixture);
        DefaultMQProducer producer = fixture.producer();
        List<Object> sent = new ArrayList<>();
        for (int level = 0; level <= 3; level++) {
            for (int number = 0; number < 4; number++) {
                String label = "level" + level + "-" + number;
                Message message = fixture.message(label, "TagA");
                message.setDelayTimeLevel(level);
                sent.add(Fixture.sent(label, producer.send(message)));
            }
        }
        Fixture.settle(() -> found.size() >= 16);
        facts.put("sent", sent);
        facts.put("received", Pushes.copy(found));
    }

    private static List<Map<String, Object>> listen(Fixture fixture) throws Exception {
        List<Map<String, Object>> found = Fixture.list();
        DefaultMQPushConsumer consumer = fixture.pushConsumer("C");
        consumer.subscribe(fixture.topic, "*");
        consumer.registerMessageListener(Pushes.into(found));
        fixture.start(consumer);
        return found;
    }

    static void timer(Fixture fixture, Map<String, Object> facts) throws Exception {
        List<Map<String, Object>> found = listen(fixture);
        DefaultMQProducer producer = fixture.producer();
        List<Object> sent = new ArrayList<>();
        for (int number = 0; number < 9; number++) {
            long millis = 1_500 + 500L * number;
            String label = "timer-" + millis;
            Message message = fixture.message(label, "TagA");
            switch (number % 3) {
                case 0:
                    MessageAccessor.putProperty(message, "TIMER_DELAY_MS", String.valueOf(millis));
                    break;
                case 1:
                    MessageAccessor.putProperty(message, "TIMER_DELAY_SEC", String.valueOf(millis / 1000));
                    break;
                default:
                    long due = System.currentTimeMillis() + millis;
                    MessageAccessor.putProperty(message, "TIMER_DELIVER_MS", String.valueOf(due));
            }
            sent.add(Fixture.sent(label, producer.send(message)));
        }
        Fixture.settle(() -> found.size() >= 9);
        facts.put("sent", sent);
        facts.put("received", Pushes.copy(found));
    }

    /** A timer message is taken back before it is due. Clients before 5.3.2 cannot ask for it. */
    static void recall(Fixture fixture, Map<String, Object> facts) throws Exception {
        List<Map<String, Object>> found = listen(fixture);
        DefaultMQProducer producer = fixture.producer();
        Method handle = SendResult.class.getMethod("getRecallHandle");
        Method recall = DefaultMQProducer.class.getMethod("recallMessage", String.class, String.class);
        List<Object> recalled = new ArrayList<>();
        List<Object> sent = new ArrayList<>();
        for (int number = 0; number < 4; number++) {
            String label = "recall-" + number;
            Message message = fixture.message(label, "TagA");
            MessageAccessor.putProperty(message, "TIMER_DELAY_MS", "4000");
            SendResult result = producer.send(message);
            sent.add(Fixture.sent(label, result));
            if (number % 2 == 0) {
                recalled.add(recall.invoke(producer, fixture.topic, handle.invoke(result)));
            }
        }
        // A consumer that found no route at its start looks again after 20 s.
        Fixture.await(() -> found.size() >= 2, 60);
        Thread.sleep(2_000);
        facts.put("sent", sent);
        facts.put("recalled", recalled);
        facts.put("received", Pushes.copy(found));
    }
}
