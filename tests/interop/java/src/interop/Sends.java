package interop;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/** The ways to send. The harness reads the topics itself and compares. */
final class Sends {
    private Sends() {
    }

    static void sync(Fixture fixture, Map<String, Object> facts) throws Exception {
        DefaultMQProducer producer = fixture.producer();
        List<Object> sent = new ArrayList<>();
        for (int number = 0; number < 20; number++) {
            String label = "sync-" + number;
            sent.add(Fixture.sent(label, producer.send(fixture.message(label, "TagA"))));
        }
        // A body that the client compresses, one that cannot be made smaller, and no body at all.
        byte[] letters = new byte[50_000];
        Arrays.fill(letters, (byte) 'x');
        byte[] noise = new byte[1_000_000];
        new Random(1).nextBytes(noise);
        sent.add(sized(fixture, producer, "compressed", letters));
        sent.add(sized(fixture, producer, "noise", noise));
        facts.put("sent", sent);
    }

    private static Object sized(Fixture fixture, DefaultMQProducer producer, String label, byte[] body)
            throws Exception {
        Message message = fixture.message(label, "TagA");
        message.setBody(body);
        Map<String, Object> facts = Fixture.sent(label, producer.send(message, 10_000));
        facts.put("body_bytes", body.length);
        return facts;
    }

    static void async(Fixture fixture, Map<String, Object> facts) throws Exception {
        DefaultMQProducer producer = fixture.producer();
        int count = 50;
        List<Object> sent = Fixture.list();
        List<Object> failed = Fixture.list();
        CountDownLatch answered = new CountDownLatch(count);
        for (int number = 0; number < count; number++) {
            String label = "async-" + number;
            producer.send(fixture.message(label, "TagA"), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    sent.add(Fixture.sent(label, result));
                    answered.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    failed.add(label + ": " + error);
                    answered.countDown();
                }
            });
        }
        facts.put("answered", answered.await(20, TimeUnit.SECONDS));
        facts.put("sent", sent);
        facts.put("failed", failed);
    }

    static void oneway(Fixture fixture, Map<String, Object> facts) throws Exception {
        DefaultMQProducer producer = fixture.producer();
        List<String> labels = new ArrayList<>();
        for (int number = 0; number < 20; number++) {
            labels.add("oneway-" + number);
            producer.sendOneway(fixture.message("oneway-" + number, "TagA"));
        }
        // An answered send on the same connection: what was sent before it has arrived.
        Thread.sleep(200);
        facts.put("labels", labels);
    }

    static void batch(Fixture fixture, Map<String, Object> facts) throws Exception {
        DefaultMQProducer producer = fixture.producer();
        List<Message> messages = new ArrayList<>();
        List<String> labels = new ArrayList<>();
        for (int number = 0; number < 10; number++) {
            labels.add("batch-" + number);
            messages.add(fixture.message("batch-" + number, "TagB"));
        }
        facts.put("labels", labels);
        facts.put("sent", Fixture.sent("batch", producer.send(messages)));
    }

    static void toUnknownTopic(Fixture fixture, Map<String, Object> facts) throws Exception {
        DefaultMQProducer producer = fixture.producer();
        List<Object> sent = new ArrayList<>();
        for (int number = 0; number < 8; number++) {
            String label = "new-" + number;
            sent.add(Fixture.sent(label, producer.send(fixture.message(label, "TagA"))));
        }
        facts.put("sent", sent);
        facts.put("queues", producer.fetchPublishMessageQueues(fixture.topic).size());
    }
}
