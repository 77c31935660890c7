package interop;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * A producer and a push consumer with default settings, while somebody kills leaders.
 *
 * <pre>
 * java [-Dacl.key=… -Dacl.secret=…] [-Dsend.timeout=MS] interop.Failover NAMESERVER TOPIC SENDS_PER_SECOND
 *   stdin:  mark   one line {"sent":n,"acked":n,"failed":n,"received":n}
 *           stop   the last line, with everything; the program ends
 * </pre>
 */
public final class Failover {
    /** Sends do not wait for each other: one that waits for an answer must not slow the rest. */
    private static final int SENDERS = 32;
    /** A consumer looks for the new address of a broker name every 30 s. */
    private static final long CATCH_UP_SECONDS_MAX = 45;

    private final DefaultMQProducer producer;
    private final Fixture fixture;
    private final AtomicInteger sent = new AtomicInteger();
    private final List<Object> failed = Fixture.list();
    private final List<Map<String, Object>> acked = Fixture.list();
    private final Map<String, Integer> received = new ConcurrentHashMap<>();
    private final Map<String, Long> last = new ConcurrentHashMap<>();
    private final List<Object> back = Fixture.list();

    private Failover(String nameserver, String topic) throws Exception {
        fixture = new Fixture(nameserver, topic);
        RPCHook account = Security.account();
        DefaultMQProducer made = new DefaultMQProducer(fixture.group("P"), account);
        made.setSendMsgTimeout(Integer.getInteger("send.timeout", made.getSendMsgTimeout()));
        producer = fixture.started(made);
        DefaultMQPushConsumer consumer = fixture.pushConsumer("C", account);
        consumer.subscribe(topic, "*");
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                took(message);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        fixture.start(consumer);
    }

    /** One thread consumes: what comes below what its queue has reached went back. */
    private synchronized void took(MessageExt message) {
        String queue = message.getBrokerName() + "/" + message.getQueueId();
        long reached = last.getOrDefault(queue, -1L);
        if (message.getQueueOffset() <= reached) {
            back.add(queue + ": " + message.getQueueOffset() + " after " + reached);
        }
        last.put(queue, Math.max(reached, message.getQueueOffset()));
        received.merge(message.getMsgId(), 1, Integer::sum);
    }

    private void send() {
        int number = sent.incrementAndGet();
        String label = "kill-" + number;
        long began = System.currentTimeMillis();
        try {
            SendResult result = producer.send(fixture.message(label, "TagA"));
            Map<String, Object> one = Fixture.sent(label, result);
            one.put("began_ms", began);
            one.put("ended_ms", System.currentTimeMillis());
            acked.add(one);
        } catch (Exception error) {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("label", label);
            one.put("began_ms", began);
            one.put("ended_ms", System.currentTimeMillis());
            one.put("error", String.valueOf(error));
            failed.add(one);
        }
    }

    private Map<String, Object> counts() {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("sent", sent.get());
        facts.put("acked", acked.size());
        facts.put("failed", failed.size());
        facts.put("received", received.size());
        return facts;
    }

    private Map<String, Object> everything() throws Exception {
        Set<Object> wanted = ConcurrentHashMap.newKeySet();
        for (Map<String, Object> one : Pushes.copy(acked)) {
            wanted.add(one.get("id"));
        }
        Fixture.await(() -> received.keySet().containsAll(wanted), CATCH_UP_SECONDS_MAX);
        Map<String, Object> facts = counts();
        facts.put("acks", Pushes.copy(acked));
        facts.put("failures", Pushes.copy(failed));
        facts.put("received_ids", new ArrayList<>(received.keySet()));
        facts.put("back", Pushes.copy(back));
        return facts;
    }

    /** Ends the program where the clients cannot start: threads of theirs would keep it. */
    private static Failover started(String nameserver, String topic) {
        try {
            return new Failover(nameserver, topic);
        } catch (Exception error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            throw new IllegalStateException(error);
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err);
        Failover run = started(arguments[0], arguments[1]);
        ScheduledExecutorService clock = Executors.newScheduledThreadPool(1);
        java.util.concurrent.ExecutorService senders = Executors.newFixedThreadPool(SENDERS);
        long pause = 1_000_000_000L / Long.parseLong(arguments[2]);
        clock.scheduleAtFixedRate(() -> senders.execute(run::send), 0, pause, TimeUnit.NANOSECONDS);
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        String order;
        while ((order = orders.readLine()) != null && !order.equals("stop")) {
            answers.println(Json.text(run.counts()));
        }
        clock.shutdownNow();
        senders.shutdown();
        senders.awaitTermination(20, TimeUnit.SECONDS);
        answers.println(Json.text(run.everything()));
        Runtime.getRuntime().halt(0);
    }
}
