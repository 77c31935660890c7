package peers;

import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** RocketMQ's own client with its defaults; a push consumer reads. */
public final class RocketMqLoad extends Load {
    private static final int ATTEMPTS_MAX = 240;
    private DefaultMQProducer producer;
    private String address;

    @Override
    void open(String address, String topic, int queues) throws Exception {
        this.address = address;
        for (int attempt = 1;; attempt++) {
            // Each attempt has a producer of its own: one that found no route looks again after 30 s.
            DefaultMQProducer made = new DefaultMQProducer("bench-producer");
            made.setNamesrvAddr(address);
            made.setInstanceName("i" + System.nanoTime());
            made.start();
            try {
                Message first = new Message(topic, "", "first", new byte[16]);
                SendStatus status = made.send(first).getSendStatus();
                if (status != SendStatus.SEND_OK) {
                    throw new IllegalStateException(String.valueOf(status));
                }
                if (producer != null) {
                    producer.shutdown();
                }
                producer = made;
                return;
            } catch (Exception error) {
                made.shutdown();
                if (attempt == ATTEMPTS_MAX) {
                    throw error;
                }
                Thread.sleep(100);
            }
        }
    }

    @Override
    void send(String topic, byte[] body, String key, int window, Meter meter) throws Exception {
        Message message = new Message(topic, body);
        if (key != null) {
            message.setKeys(key);
        }
        producer.send(message, answered(meter));
    }

    @Override
    void batch(String topic, byte[][] bodies, int from, Meter meter) throws Exception {
        List<Message> messages = new ArrayList<>(BATCH);
        for (int at = 0; at < BATCH; at++) {
            messages.add(new Message(topic, bodies[(from + at) % bodies.length]));
        }
        producer.send(messages, answered(meter));
    }

    private static SendCallback answered(Meter meter) {
        long sentAt = System.nanoTime();
        return new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                if (result.getSendStatus() == SendStatus.SEND_OK) {
                    meter.acknowledged(sentAt);
                } else {
                    meter.failed(result.getSendStatus());
                }
            }

            @Override
            public void onException(Throwable error) {
                meter.failed(error);
            }
        };
    }

    @Override
    void consume(String topic, Reading reading) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("bench-" + System.nanoTime());
        consumer.setNamesrvAddr(address);
        consumer.setInstanceName("i" + System.nanoTime());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                reading.read(message.getBody(), message.getKeys(), message.getQueueOffset());
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        try {
            reading.await();
        } finally {
            consumer.shutdown();
        }
    }

    public static void main(String[] arguments) throws Exception {
        new RocketMqLoad().serve();
    }
}
