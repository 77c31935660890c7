package interop;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.RequestResponseFuture;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** A request message and the reply that the broker pushes back to the asking client. */
final class Replies {
    private Replies() {
    }

    static void request(Fixture fixture, Map<String, Object> facts) throws Exception {
        DefaultMQProducer answering = fixture.started(new DefaultMQProducer(fixture.group("R")));
        DefaultMQPushConsumer consumer = fixture.pushConsumer("C");
        consumer.subscribe(fixture.topic, "*");
        List<Object> failed = Fixture.list();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                try {
                    byte[] body = Fixture.bytes("reply to " + Fixture.text(message.getBody()));
                    answering.send(MessageUtil.createReplyMessage(message, body), 3_000);
                } catch (Exception error) {
                    failed.add(String.valueOf(error));
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        fixture.start(consumer);
        DefaultMQProducer asking = fixture.producer();
        List<Object> replies = new ArrayList<>();
        for (int number = 0; number < 5; number++) {
            Message question = fixture.message("ask-" + number, "TagA");
            replies.add(waitsForReplies() ? Fixture.text(asking.request(question, 40_000).getBody())
                    : async(question, asking));
        }
        facts.put("replies", replies);
        facts.put("async_reply", async(fixture.message("ask-later", "TagA"), asking));
        facts.put("failed", Pushes.copy(failed));
    }

    /** From 5.3.1 to 5.3.3 request() ends when the question is stored (apache/rocketmq#9319). */
    private static boolean waitsForReplies() {
        return Arrays.stream(RequestResponseFuture.class.getMethods())
                .noneMatch(method -> method.getName().equals("acquireCountDownLatch"));
    }

    private static String async(Message question, DefaultMQProducer asking) throws Exception {
        List<String> answer = Fixture.list();
        CountDownLatch answered = new CountDownLatch(1);
        asking.request(question, new RequestCallback() {
            @Override
            public void onSuccess(Message message) {
                if (message == null) {
                    return; // the question is stored; the reply comes with another call
                }
                answer.add(Fixture.text(message.getBody()));
                answered.countDown();
            }

            @Override
            public void onException(Throwable error) {
                answer.add("failed: " + error);
                answered.countDown();
            }
        }, 40_000);
        answered.await(45, TimeUnit.SECONDS);
        return answer.isEmpty() ? "nothing came" : answer.get(0);
    }
}
