package interop;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * A member that gives back what is labelled "bad-…", at level 1 first and then at level 2.
 *
 * <pre>
 * java interop.Returns NAMESERVER TOPIC GROUP MAX_RECONSUME_TIMES
 *   stdout:  one JSON line for each delivery
 *   stdin:   dead N   one line {"dead":[labels]} when N dead letters were read, or after a while
 * </pre>
 */
public final class Returns {
    private Returns() {
    }

    private static List<Object> dead(Fixture fixture, String group, int count) throws Exception {
        DefaultLitePullConsumer reader = fixture.litePull("dead");
        reader.setAutoCommit(false);
        fixture.start(reader);
        Collection<MessageQueue> queues = reader.fetchMessageQueues("%DLQ%" + group);
        reader.assign(queues);
        for (MessageQueue queue : queues) {
            reader.seek(queue, 0);
        }
        List<Object> found = new ArrayList<>();
        Fixture.await(() -> {
            for (MessageExt message : reader.poll(200)) {
                found.add(message.getUserProperty("label"));
            }
            return found.size() >= count;
        }, 20);
        return found;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err);
        String group = arguments[2];
        Fixture fixture = new Fixture(arguments[0], arguments[1]);
        DefaultMQPushConsumer consumer = fixture.pushConsumerOf(group);
        consumer.setMaxReconsumeTimes(Integer.parseInt(arguments[3]));
        consumer.setConsumeMessageBatchMaxSize(1);
        consumer.subscribe(arguments[1], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt message = messages.get(0);
            Map<String, Object> one = Fixture.received(message);
            synchronized (answers) {
                answers.println(Json.text(one));
            }
            context.setDelayLevelWhenNextConsume(message.getReconsumeTimes() + 1);
            boolean bad = message.getUserProperty("label").startsWith("bad-");
            return bad ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                    : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        fixture.start(consumer);
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        String order;
        while ((order = orders.readLine()) != null) {
            Map<String, Object> facts = new LinkedHashMap<>();
            facts.put("dead", dead(fixture, group, Integer.parseInt(order.split(" ")[1])));
            synchronized (answers) {
                answers.println(Json.text(facts));
            }
        }
        fixture.close();
        Runtime.getRuntime().halt(0);
    }
}
