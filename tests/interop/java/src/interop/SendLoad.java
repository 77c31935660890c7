package interop;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * Asynchronous sends of 1 KiB with default settings, so many in flight at a time, by one of several
 * producers that have a name server each.
 *
 * <pre>
 * java interop.SendLoad TOPIC NAMESERVER…
 *   stdin:   run WHICH IN_FLIGHT MILLIS   WHICH counts the name servers from 0
 *            stop                         the program ends
 *   a line:  {"acked":n,"failed":n,"through_relays":n,"seconds":until the last answer,"error":"…"}
 * </pre>
 */
public final class SendLoad {
    private final Fixture fixture;
    private final DefaultMQProducer producer;
    private final AtomicInteger acked = new AtomicInteger();
    private final AtomicInteger failed = new AtomicInteger();
    private final AtomicInteger throughRelays = new AtomicInteger();
    private volatile String error = "";

    private SendLoad(String nameserver, String topic) throws Exception {
        fixture = new Fixture(nameserver, topic);
        producer = fixture.started(new DefaultMQProducer(fixture.group("P")));
    }

    private Map<String, Object> run(int inFlight, long millis) throws Exception {
        acked.set(0);
        failed.set(0);
        throughRelays.set(0);
        error = "";
        Semaphore free = new Semaphore(inFlight);
        byte[] body = new byte[1024];
        long began = System.nanoTime();
        long until = began + TimeUnit.MILLISECONDS.toNanos(millis);
        while (System.nanoTime() < until) {
            free.acquire();
            producer.send(new Message(fixture.topic, body), answered(free));
        }
        free.acquire(inFlight);
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("acked", acked.get());
        facts.put("failed", failed.get());
        facts.put("through_relays", throughRelays.get());
        facts.put("seconds", (System.nanoTime() - began) / 1e9);
        facts.put("error", error);
        return facts;
    }

    private SendCallback answered(Semaphore free) {
        return new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                if (result.getSendStatus() == SendStatus.SEND_OK) {
                    acked.incrementAndGet();
                    if (result.getMessageQueue().getBrokerName().startsWith("~")) {
                        throughRelays.incrementAndGet();
                    }
                } else {
                    failed.incrementAndGet();
                    error = String.valueOf(result.getSendStatus());
                }
                free.release();
            }

            @Override
            public void onException(Throwable thrown) {
                failed.incrementAndGet();
                error = String.valueOf(thrown);
                free.release();
            }
        };
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err);
        SendLoad[] loads = new SendLoad[arguments.length - 1];
        for (int which = 0; which < loads.length; which++) {
            loads[which] = new SendLoad(arguments[which + 1], arguments[0]);
        }
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        String order;
        while ((order = orders.readLine()) != null && !order.equals("stop")) {
            String[] words = order.split(" ");
            SendLoad load = loads[Integer.parseInt(words[1])];
            answers.println(Json.text(load.run(Integer.parseInt(words[2]), Long.parseLong(words[3]))));
        }
        Runtime.getRuntime().halt(0);
    }
}
