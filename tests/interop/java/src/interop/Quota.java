package interop;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;

/** A producer with default settings whose account may send `quota.messages` a second. */
final class Quota {
    private static final long PAUSE_MS = 200;

    private Quota() {
    }

    static void quota(Fixture fixture, Map<String, Object> facts) throws Exception {
        int allowed = Integer.getInteger("quota.messages");
        DefaultMQProducer producer =
                fixture.started(new DefaultMQProducer(fixture.group("P"), Security.account()));
        facts.put("hasty", hasty(fixture, producer, 3 * allowed));
        facts.put("async", async(fixture, producer, 3 * allowed));
        facts.put("oneway", oneway(fixture, producer, 3 * allowed));
        facts.put("patient", patient(fixture, producer, 3 * allowed));
    }

    /** One after the other without a pause: what was acknowledged, and how the others ended. */
    private static Object hasty(Fixture fixture, DefaultMQProducer producer, int count) throws Exception {
        List<String> acked = new ArrayList<>();
        Map<String, Integer> refused = new HashMap<>();
        String text = "";
        for (int number = 0; number < count; number++) {
            try {
                producer.send(fixture.message("hasty-" + number, "TagA"));
                acked.add("hasty-" + number);
            } catch (Exception error) {
                refused.merge(kind(error), 1, Integer::sum);
                text = String.valueOf(error);
            }
        }
        return facts(acked, refused, text);
    }

    private static Object async(Fixture fixture, DefaultMQProducer producer, int count) throws Exception {
        TimeUnit.MILLISECONDS.sleep(1_100);
        List<String> acked = Fixture.list();
        Map<String, Integer> refused = new HashMap<>();
        List<String> texts = Fixture.list();
        CountDownLatch answered = new CountDownLatch(count);
        for (int number = 0; number < count; number++) {
            String label = "async-" + number;
            producer.send(fixture.message(label, "TagA"), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    acked.add(label);
                    answered.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    synchronized (refused) {
                        refused.merge(kind(error), 1, Integer::sum);
                    }
                    texts.add(String.valueOf(error));
                    answered.countDown();
                }
            });
        }
        boolean all = answered.await(30, TimeUnit.SECONDS);
        return facts(acked, refused, all ? texts.isEmpty() ? "" : texts.get(0) : "not all were answered");
    }

    /** Nothing tells the program of one that is refused. */
    private static Object oneway(Fixture fixture, DefaultMQProducer producer, int count) throws Exception {
        TimeUnit.MILLISECONDS.sleep(1_100);
        Map<String, Integer> refused = new HashMap<>();
        for (int number = 0; number < count; number++) {
            try {
                producer.sendOneway(fixture.message("oneway-" + number, "TagA"));
            } catch (Exception error) {
                refused.merge(kind(error), 1, Integer::sum);
            }
        }
        return facts(new ArrayList<>(), refused, "");
    }

    /** A program that pauses when it is refused, and sends the same again. */
    private static Object patient(Fixture fixture, DefaultMQProducer producer, int count) throws Exception {
        TimeUnit.MILLISECONDS.sleep(1_100);
        List<String> acked = new ArrayList<>();
        Map<String, Integer> refused = new HashMap<>();
        long began = System.nanoTime();
        for (int number = 0; number < count;) {
            try {
                producer.send(fixture.message("patient-" + number, "TagA"));
                acked.add("patient-" + number);
                number++;
            } catch (MQClientException | MQBrokerException error) {
                refused.merge(kind(error), 1, Integer::sum);
                TimeUnit.MILLISECONDS.sleep(PAUSE_MS);
            }
        }
        Map<String, Object> facts = facts(acked, refused, "");
        facts.put("seconds", (System.nanoTime() - began) / 1e9);
        return facts;
    }

    private static Map<String, Object> facts(List<String> acked, Map<String, Integer> refused, String text) {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("acked", acked);
        facts.put("refused", refused);
        facts.put("text", text);
        return facts;
    }

    /** The class that the program catches, and the code in it. */
    private static String kind(Throwable error) {
        if (error instanceof MQClientException) {
            return "MQClientException " + ((MQClientException) error).getResponseCode();
        }
        if (error instanceof MQBrokerException) {
            return "MQBrokerException " + ((MQBrokerException) error).getResponseCode();
        }
        return error.getClass().getSimpleName();
    }
}
