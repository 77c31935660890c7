package interop;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends of one kind and a push consumer of them, while somebody kills a leader for long.
 *
 * <pre>
 * java interop.DeadKinds NAMESERVER TOPIC START_MS FILE KIND THREADS PAUSE_MS
 *   starts its clients at START_MS; so many threads send, each with that pause after a send
 *   KIND:    plain        a concurrent consumer
 *            delayed      by one second
 *            transaction  committed; one of ten only when the broker asks
 *            orderly      a thread sends to one queue and tries the same message until it is taken;
 *                         an orderly consumer
 *            request      acknowledged is what was replied to
 *   stdin:   mark         one line: what happened since the mark before
 *            stop         no more sends; all acknowledged are consumed, or 90 s are over: the last
 *   a line:  {"acked":n,"failed":n,"relayed":null,"gap_ms":longest without a message consumed,
 *            "again":consumed once more,"disorder":n,"missing":acknowledged, not consumed yet,
 *            "errors":[…]}
 *   FILE:    the number of each message that was acknowledged, a line each; it is the body
 * </pre>
 */
public final class DeadKinds {
    private static final int ERRORS_MAX = 5;
    private static final long REQUEST_MS_MAX = 5_000;
    private static final long CATCH_UP_SECONDS_MAX = 90;

    private final AtomicBoolean ends = new AtomicBoolean();
    private final AtomicInteger number = new AtomicInteger();
    private final AtomicInteger sending = new AtomicInteger();
    private final Set<Integer> told = ConcurrentHashMap.newKeySet();
    private final Set<Integer> consumed = ConcurrentHashMap.newKeySet();
    private final Map<String, Integer> last = new ConcurrentHashMap<>();
    private final List<String> errors = new ArrayList<>();
    private final Fixture fixture;
    private final PrintWriter file;
    private final String kind;
    private final DefaultMQProducer producer;
    private final DefaultMQProducer answering;
    private int acked;
    private int failed;
    private int again;
    private int disorder;
    private long lastAt = System.currentTimeMillis();
    private long gap;

    private DeadKinds(String nameserver, String topic, String file, String kind) throws Exception {
        fixture = new Fixture(nameserver, topic);
        this.file = new PrintWriter(file, "UTF-8");
        this.kind = kind;
        answering = kind.equals("request") ? fixture.started(new DefaultMQProducer(fixture.group("R"))) : null;
        DefaultMQPushConsumer consumer = fixture.pushConsumer("C");
        consumer.subscribe(topic, "*");
        if (kind.equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                messages.forEach(this::took);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(this::took);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        fixture.start(consumer);
        producer = kind.equals("transaction") ? transactions() : fixture.producer();
    }

    private TransactionMQProducer transactions() throws Exception {
        TransactionMQProducer made = new TransactionMQProducer(fixture.group("P"));
        made.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return body(message) % 10 == 0 ? LocalTransactionState.UNKNOW : LocalTransactionState.COMMIT_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        return fixture.started(made);
    }

    private static int body(Message message) {
        return Integer.parseInt(Fixture.text(message.getBody()));
    }

    private void took(MessageExt message) {
        int which = body(message);
        synchronized (this) {
            long now = System.currentTimeMillis();
            gap = Math.max(gap, now - lastAt);
            lastAt = now;
            if (!consumed.add(which)) {
                again++;
                return;
            }
            if (kind.equals("orderly")) {
                Integer before = last.put(message.getUserProperty("thread"), which);
                disorder += before != null && before > which ? 1 : 0;
            }
        }
        if (answering != null) {
            try {
                answering.send(MessageUtil.createReplyMessage(message, message.getBody()), 3_000);
            } catch (Exception error) {
                synchronized (this) {
                    keep("reply: " + error);
                }
            }
        }
    }

    private void send(int thread, long pause) {
        sending.incrementAndGet();
        while (!ends.get()) {
            int which = number.incrementAndGet();
            boolean tries = true;
            while (tries && !ends.get()) {
                try {
                    send(thread, which);
                    went(which, null);
                    tries = false;
                } catch (Exception error) {
                    went(which, error);
                    tries = kind.equals("orderly");
                }
                rest(pause);
            }
        }
        sending.decrementAndGet();
    }

    private void send(int thread, int which) throws Exception {
        Message message = fixture.message(String.valueOf(which), "TagA");
        message.putUserProperty("thread", String.valueOf(thread));
        switch (kind) {
            case "delayed":
                message.setDelayTimeLevel(1);
                producer.send(message);
                break;
            case "transaction":
                producer.sendMessageInTransaction(message, null);
                break;
            case "orderly":
                producer.send(message, (queues, one, key) -> queues.get((Integer) key % queues.size()), thread);
                break;
            case "request":
                producer.request(message, REQUEST_MS_MAX);
                break;
            default:
                producer.send(message);
        }
    }

    private static void rest(long pause) {
        try {
            Thread.sleep(pause);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    private synchronized void went(int which, Exception error) {
        if (error == null) {
            acked++;
            told.add(which);
            file.println(which);
        } else {
            failed++;
            keep(String.valueOf(error));
        }
    }

    private void keep(String error) {
        if (errors.size() < ERRORS_MAX) {
            errors.add(error);
        }
    }

    private synchronized Map<String, Object> mark() {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("acked", acked);
        facts.put("failed", failed);
        facts.put("relayed", null);
        facts.put("gap_ms", Math.max(gap, System.currentTimeMillis() - lastAt));
        facts.put("again", again);
        facts.put("disorder", disorder);
        facts.put("missing", told.stream().filter(one -> !consumed.contains(one)).count());
        facts.put("errors", new ArrayList<Object>(errors));
        acked = failed = again = disorder = 0;
        gap = 0;
        errors.clear();
        file.flush();
        return facts;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err);
        Fixture.prepare(arguments[0], arguments[1]);
        Thread.sleep(Math.max(0, Long.parseLong(arguments[2]) - System.currentTimeMillis()));
        DeadKinds run = new DeadKinds(arguments[0], arguments[1], arguments[3], arguments[4]);
        long pause = Long.parseLong(arguments[6]);
        for (int count = Integer.parseInt(arguments[5]); count > 0; count--) {
            int thread = count;
            new Thread(() -> run.send(thread, pause)).start();
        }
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        String order;
        while ((order = orders.readLine()) != null && !order.equals("stop")) {
            answers.println(Json.text(run.mark()));
        }
        run.ends.set(true);
        Fixture.await(() -> run.sending.get() == 0 && run.consumed.containsAll(run.told), CATCH_UP_SECONDS_MAX);
        answers.println(Json.text(run.mark()));
        Runtime.getRuntime().halt(0);
    }
}
