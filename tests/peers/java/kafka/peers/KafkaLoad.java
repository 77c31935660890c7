package peers;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Kafka's own client: acks=all, idempotent, batches of 16 KiB, linger 5 ms with many in flight and
 * none with one; the consumer checks CRCs, as it does by default.
 */
public final class KafkaLoad extends Load {
    private static final int ATTEMPTS_MAX = 600;
    private final Map<String, String> ofTopics;
    private KafkaProducer<String, byte[]> many;
    private KafkaProducer<String, byte[]> one;
    private String address;

    private KafkaLoad(Map<String, String> ofTopics) {
        this.ofTopics = ofTopics;
    }

    @Override
    void open(String address, String topic, int queues) throws Exception {
        this.address = address;
        create(topic, queues);
        if (many == null) {
            many = producer(5);
            one = producer(0);
        }
        one.send(new ProducerRecord<>(topic, "first", new byte[16])).get();
    }

    private void create(String topic, int partitions) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        try (Admin admin = Admin.create(settings)) {
            for (int attempt = 1;; attempt++) { // too few brokers are registered in the beginning
                try {
                    NewTopic made = new NewTopic(topic, partitions, (short) 3).configs(ofTopics);
                    admin.createTopics(List.of(made)).all().get();
                    return;
                } catch (java.util.concurrent.ExecutionException error) {
                    if (attempt == ATTEMPTS_MAX) {
                        throw error;
                    }
                    Thread.sleep(100);
                }
            }
        }
    }

    private KafkaProducer<String, byte[]> producer(int lingerMillis) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("acks", "all");
        settings.put("linger.ms", lingerMillis);
        return new KafkaProducer<>(settings, new StringSerializer(), new ByteArraySerializer());
    }

    @Override
    void send(String topic, byte[] body, String key, int window, Meter meter) {
        long sentAt = System.nanoTime();
        (window == 1 ? one : many).send(new ProducerRecord<>(topic, key, body), (at, error) -> {
            if (error == null) {
                meter.acknowledged(sentAt);
            } else {
                meter.failed(error);
            }
        });
    }

    @Override
    void batch(String topic, byte[][] bodies, int from, Meter meter) {
        throw new UnsupportedOperationException("its producer makes batches by itself");
    }

    @Override
    void consume(String topic, Reading reading) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("enable.auto.commit", "false");
        try (KafkaConsumer<String, byte[]> consumer = new KafkaConsumer<>(
                settings, new StringDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> all = new ArrayList<>();
            consumer.partitionsFor(topic)
                    .forEach(part -> all.add(new TopicPartition(topic, part.partition())));
            consumer.assign(all);
            consumer.seekToBeginning(all);
            while (!reading.isComplete()) {
                for (ConsumerRecord<String, byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    reading.read(record.value(), record.key(), record.offset());
                }
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        boolean flush = arguments.length > 0 && arguments[0].equals("flush");
        new KafkaLoad(flush ? Map.of("flush.messages", "1") : Map.of()).serve();
    }
}
