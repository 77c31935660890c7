package interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** Subscriptions that want a part of a topic. */
final class Filters {
    private static final String[] TAGS = {"TagA", "TagB", "TagC"};
    private static final String[] COLORS = {"red", "green", "blue"};

    private Filters() {
    }

    static void tags(Fixture fixture, Map<String, Object> facts) throws Exception {
        run(fixture, facts, MessageSelector.byTag("TagA || TagC"), 20);
    }

    static void sql(Fixture fixture, Map<String, Object> facts) throws Exception {
        // n is 0..29; red is every third, from 0.
        run(fixture, facts, MessageSelector.bySql("color = 'red' AND n BETWEEN 10 AND 20"), 3);
    }

    private static void run(
            Fixture fixture, Map<String, Object> facts, MessageSelector selector, int expected)
            throws Exception {
        DefaultMQProducer producer = fixture.producer();
        List<Object> sent = new ArrayList<>();
        for (int number = 0; number < 30; number++) {
            String label = "f-" + number;
            Message message = fixture.message(label, TAGS[number % 3]);
            message.putUserProperty("color", COLORS[number % 3]);
            message.putUserProperty("n", String.valueOf(number));
            sent.add(Fixture.sent(label, producer.send(message)));
        }
        List<Map<String, Object>> found = Fixture.list();
        DefaultMQPushConsumer consumer = fixture.pushConsumer("C");
        consumer.subscribe(fixture.topic, selector);
        consumer.registerMessageListener(Pushes.into(found));
        fixture.start(consumer);
        Fixture.settle(() -> found.size() >= expected);
        facts.put("sent", sent);
        facts.put("received", Pushes.copy(found));
    }
}
