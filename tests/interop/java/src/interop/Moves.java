package interop;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Asynchronous sends, IN_FLIGHT at once, and a push consumer, while somebody moves the lead.
 *
 * <pre>
 * java interop.Moves NAMESERVER TOPIC IN_FLIGHT FILE
 *   stdin:  mark   one line {"sent":n,"acked":n,"failed":n,"longest_ms":n,"received":n,"error":text}
 *           stop   no more sends; all are answered and consumed, or 60 s are over: the same line.
 *                  FILE has the number of each message that was acknowledged, a line each.
 * </pre>
 */
public final class Moves {
    private static final long CATCH_UP_SECONDS_MAX = 60;

    private final AtomicInteger sent = new AtomicInteger();
    private final AtomicInteger failed = new AtomicInteger();
    private final AtomicLong longestMs = new AtomicLong();
    private final Set<Integer> acked = ConcurrentHashMap.newKeySet();
    private final Set<Integer> received = ConcurrentHashMap.newKeySet();
    private final Fixture fixture;
    private final DefaultMQProducer producer;
    private final Semaphore room;
    private volatile String error = "";
    private volatile boolean over;

    private Moves(String nameserver, String topic, int inFlight) throws Exception {
        fixture = new Fixture(nameserver, topic);
        room = new Semaphore(inFlight);
        producer = fixture.producer();
        DefaultMQPushConsumer consumer = fixture.pushConsumer("C");
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                received.add(Integer.parseInt(Fixture.text(message.getBody())));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        fixture.start(consumer);
    }

    private void sendAll() {
        try {
            while (!over) {
                room.acquire();
                send(sent.incrementAndGet());
            }
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    private void send(int number) {
        long began = System.nanoTime();
        SendCallback callback = new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                acked.add(number);
                answered(began);
            }

            @Override
            public void onException(Throwable problem) {
                error = String.valueOf(problem);
                failed.incrementAndGet();
                answered(began);
            }
        };
        try {
            producer.send(fixture.message(String.valueOf(number), "TagA"), callback);
        } catch (Exception problem) {
            callback.onException(problem);
        }
    }

    private void answered(long began) {
        longestMs.accumulateAndGet((System.nanoTime() - began) / 1_000_000, Math::max);
        room.release();
    }

    private Map<String, Object> counts() {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("sent", sent.get());
        facts.put("acked", acked.size());
        facts.put("failed", failed.get());
        facts.put("longest_ms", longestMs.get());
        facts.put("received", received.size());
        facts.put("error", error);
        return facts;
    }

    private void stop(String file) throws Exception {
        over = true;
        Fixture.await(() -> acked.size() + failed.get() == sent.get(), CATCH_UP_SECONDS_MAX);
        Fixture.await(() -> received.containsAll(acked), CATCH_UP_SECONDS_MAX);
        try (PrintWriter lines = new PrintWriter(
                Files.newBufferedWriter(Paths.get(file), StandardCharsets.UTF_8))) {
            acked.forEach(lines::println);
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err);
        Moves run = new Moves(arguments[0], arguments[1], Integer.parseInt(arguments[2]));
        Thread sender = new Thread(run::sendAll, "sender");
        sender.setDaemon(true);
        sender.start();
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        String order;
        while ((order = orders.readLine()) != null && !order.equals("stop")) {
            answers.println(Json.text(run.counts()));
        }
        run.stop(arguments[3]);
        answers.println(Json.text(run.counts()));
        Runtime.getRuntime().halt(0);
    }
}
