package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// byLabel decides by the label: commit-*, rollback-*, unknown-commit-*, unknown-rollback-*.
type byLabel struct{ checked Found }

func (b *byLabel) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	label := message.GetProperty("label")
	if strings.HasPrefix(label, "unknown") {
		return primitive.UnknowState
	}
	return decision(label)
}

func (b *byLabel) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	b.checked.add(Facts{"label": message.GetProperty("label"), "topic": message.Topic})
	return decision(strings.TrimPrefix(message.GetProperty("label"), "unknown-"))
}

func decision(label string) primitive.LocalTransactionState {
	if strings.HasPrefix(label, "commit") {
		return primitive.CommitMessageState
	}
	return primitive.RollbackMessageState
}

func transaction(f *Fixture, facts Facts) error {
	return transact(f, facts, []string{"commit", "rollback"}, 10)
}

func transactionCheck(f *Fixture, facts Facts) error {
	return transact(f, facts, []string{"unknown-commit", "unknown-rollback"}, 3)
}

func transact(f *Fixture, facts Facts, kinds []string, count int) error {
	decider := &byLabel{}
	made, err := rocketmq.NewTransactionProducer(decider,
		producer.WithNameServer([]string{f.nameserver}),
		producer.WithGroupName(f.group("P")),
		producer.WithInstanceName(instance()))
	must(err)
	must(made.Start())
	f.closeLater(made.Shutdown)
	found := &Found{}
	f.consume("C", everything, found.collect)
	out := []Facts{}
	for number := 0; number < count; number++ {
		for _, kind := range kinds {
			label := fmt.Sprintf("%s-%d", kind, number)
			message := f.message(label, "TagA")
			message.WithProperty("CHECK_IMMUNITY_TIME_IN_SECONDS", "2")
			result, err := made.SendMessageInTransaction(context.Background(), message)
			must(err)
			out = append(out, sent(label, result.SendResult))
		}
	}
	asked := strings.HasPrefix(kinds[0], "unknown")
	settle(func() bool {
		return found.count() >= count && (!asked || decider.checked.count() >= 2*count)
	})
	facts["sent"], facts["received"], facts["checked"] = out, found.all(), decider.checked.all()
	return nil
}

func requestReply(f *Fixture, facts Facts) error {
	answering := f.producer(producer.WithGroupName(f.group("R")))
	failed := &Found{}
	f.consume("C", everything, func(message *primitive.MessageExt) consumer.ConsumeResult {
		reply := &primitive.Message{Topic: message.GetProperty("CLUSTER") + "_REPLY_TOPIC"}
		reply.Body = append([]byte("reply to "), message.Body...)
		for _, name := range []string{"CORRELATION_ID", "REPLY_TO_CLIENT", "TTL"} {
			reply.WithProperty(name, message.GetProperty(name))
		}
		reply.WithProperty("MSG_TYPE", "reply")
		if _, err := answering.SendSync(context.Background(), reply); err != nil {
			failed.add(Facts{"error": err.Error()})
		}
		return consumer.ConsumeSuccess
	})
	asking := f.producer()
	replies := []string{}
	for number := 0; number < 5; number++ {
		message := f.message(fmt.Sprintf("ask-%d", number), "TagA")
		reply, err := asking.Request(context.Background(), 40*time.Second, message)
		must(err)
		replies = append(replies, string(reply.Body))
	}
	facts["replies"], facts["failed"] = replies, failed.all()
	return nil
}
