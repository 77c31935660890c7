package interop;

import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs mqadmin command lines in one process, beside an online producer PG_H and consumer CG_H.
 *
 * <pre>
 * java interop.MqAdmin NAMESERVER FILE
 *   {"scenario":"setup","sent":[...],"received":[...],"producer":id,"consumer":id}
 *   {"scenario":LINE,"out":stdout,"err":stderr,"seconds":...}            one per line of FILE
 * </pre>
 *
 * TopicH exists with 4 queues. Two messages go to each queue, number n with the key key<n>. In the
 * lines, &lt;msgId&gt; and &lt;uniqKey&gt; stand for those of message 1.
 */
public final class MqAdmin {
    static final String TOPIC = "TopicH";
    /** clusterRT never ends by itself; all others do within a second or two. */
    private static final long LINE_MILLIS_MAX = 9_000;
    /** How long an interrupted one may shut its clients down: what it says later would be the next line's. */
    private static final long SHUTDOWN_MILLIS_MAX = 90_000;

    private MqAdmin() {
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        Fixture fixture = new Fixture(arguments[0], TOPIC);
        Map<String, Object> setup = new LinkedHashMap<>();
        setup.put("scenario", "setup");
        SendResult one = setUp(fixture, setup);
        answers.println(Json.text(setup));
        PrintStream out = System.out;
        PrintStream err = System.err;
        for (String line : Files.readAllLines(Paths.get(arguments[1]), StandardCharsets.UTF_8)) {
            String filled = line.replace("<msgId>", one.getOffsetMsgId()).replace("<uniqKey>", one.getMsgId());
            Map<String, Object> facts = run(line, (filled + " -n " + fixture.nameserver).split(" "));
            System.setOut(out);
            System.setErr(err);
            answers.println(Json.text(facts));
        }
        Runtime.getRuntime().halt(0);
    }

    private static SendResult setUp(Fixture fixture, Map<String, Object> setup) throws Exception {
        DefaultMQProducer producer = fixture.started(new DefaultMQProducer("PG_H"));
        List<Object> sent = new ArrayList<>();
        SendResult second = null;
        for (int number = 0; number < 8; number++) {
            Message message = fixture.message("m" + number, "TagA");
            message.setKeys("key" + number);
            List<MessageQueue> queues = producer.fetchPublishMessageQueues(TOPIC);
            int queue = number % queues.size();
            SendResult result = producer.send(message, (all, m, id) -> all.get((Integer) id), queue);
            second = number == 1 ? result : second;
            sent.add(Fixture.sent("m" + number, result));
        }
        List<Map<String, Object>> found = Fixture.list();
        DefaultMQPushConsumer consumer = fixture.own(new DefaultMQPushConsumer("CG_H"));
        consumer.setConsumeFromWhere(org.apache.rocketmq.common.consumer.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.subscribe(TOPIC, "*");
        consumer.registerMessageListener(Pushes.into(found));
        consumer.start();
        Fixture.settle(() -> found.size() >= 8);
        Thread.sleep(12_000); // the first positions are stored ten seconds after the start
        setup.put("sent", sent);
        setup.put("received", Pushes.copy(found));
        setup.put("producer", producer.buildMQClientId());
        setup.put("consumer", consumer.buildMQClientId());
        return second;
    }

    private static Map<String, Object> run(String line, String[] arguments) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        System.setOut(new PrintStream(out, true, "UTF-8"));
        System.setErr(new PrintStream(err, true, "UTF-8"));
        long began = System.nanoTime();
        Thread thread = new Thread(() -> MQAdminStartup.main0(arguments, null), "mqadmin");
        thread.start();
        thread.join(LINE_MILLIS_MAX);
        boolean ended = !thread.isAlive();
        if (!ended) {
            thread.interrupt();
            thread.join(SHUTDOWN_MILLIS_MAX);
        }
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("scenario", line);
        facts.put("arguments", Arrays.asList(arguments));
        facts.put("out", out.toString("UTF-8"));
        facts.put("err", err.toString("UTF-8"));
        facts.put("ended", ended);
        facts.put("seconds", (System.nanoTime() - began) / 1e9);
        return facts;
    }
}
