package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// waitMax bounds a wait: a rebalance takes up to 20 s, a check of a transaction up to 36 s.
const waitMax = 60 * time.Second

var instances int64

// Fixture is one scenario's topic, group names and clients.
type Fixture struct {
	nameserver string
	topic      string
	mutex      sync.Mutex
	closers    []func() error
}

func (f *Fixture) group(role string) string { return "G_" + f.topic + "_" + role }

// instance makes each client a client id of its own, also beside other processes.
func instance() string {
	return fmt.Sprintf("g%d-%d", os.Getpid(), atomic.AddInt64(&instances, 1))
}

func (f *Fixture) closeLater(closer func() error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.closers = append(f.closers, closer)
}

func (f *Fixture) close() {
	for _, closer := range f.closers {
		_ = closer()
	}
}

func (f *Fixture) producer(options ...producer.Option) rocketmq.Producer {
	all := append([]producer.Option{
		producer.WithNameServer([]string{f.nameserver}),
		producer.WithGroupName(f.group("P")),
		producer.WithInstanceName(instance()),
	}, options...)
	made, err := rocketmq.NewProducer(all...)
	must(err)
	must(made.Start())
	f.closeLater(made.Shutdown)
	return made
}

// listener is called for each message, one after the other.
type listener func(message *primitive.MessageExt) consumer.ConsumeResult

func (f *Fixture) consume(
	role string, selector consumer.MessageSelector, each listener, options ...consumer.Option,
) {
	all := append([]consumer.Option{
		consumer.WithNameServer([]string{f.nameserver}),
		consumer.WithGroupName(f.group(role)),
		consumer.WithInstance(instance()),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumeMessageBatchMaxSize(1),
	}, options...)
	made, err := rocketmq.NewPushConsumer(all...)
	must(err)
	must(made.Subscribe(f.topic, selector,
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			result := consumer.ConsumeSuccess
			for _, message := range messages {
				if one := each(message); one != consumer.ConsumeSuccess {
					result = one
				}
			}
			return result, nil
		}))
	must(made.Start())
	f.closeLater(made.Shutdown)
}

// message has the label as body, key and property.
func (f *Fixture) message(label, tag string) *primitive.Message {
	message := primitive.NewMessage(f.topic, []byte(label))
	message.WithTag(tag).WithKeys([]string{"k-" + label})
	message.WithProperty("label", label)
	return message
}

func sent(label string, result *primitive.SendResult) Facts {
	status := map[primitive.SendStatus]string{primitive.SendOK: "SEND_OK"}[result.Status]
	return Facts{
		"label": label, "status": status, "id": result.MsgID, "offset_id": result.OffsetMsgID,
		"broker": result.MessageQueue.BrokerName, "queue": result.MessageQueue.QueueId,
		"offset": result.QueueOffset,
	}
}

func received(message *primitive.MessageExt) Facts {
	return Facts{
		"label": message.GetProperty("label"), "id": message.MsgId,
		"body_bytes": len(message.Body), "key": message.GetKeys(), "tag": message.GetTags(),
		"broker": message.Queue.BrokerName, "queue": message.Queue.QueueId,
		"offset": message.QueueOffset, "reconsumed": message.ReconsumeTimes,
		"born_ms": message.BornTimestamp, "stored_ms": message.StoreTimestamp,
		"at_ms": time.Now().UnixMilli(), "topic": message.Topic,
	}
}

// Found collects facts from many goroutines.
type Found struct {
	mutex sync.Mutex
	facts []Facts
}

func (c *Found) add(one Facts) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.facts = append(c.facts, one)
}

func (c *Found) all() []Facts {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return append([]Facts{}, c.facts...)
}

func (c *Found) count() int { return len(c.all()) }

func (c *Found) collect(message *primitive.MessageExt) consumer.ConsumeResult {
	c.add(received(message))
	return consumer.ConsumeSuccess
}

func await(done func() bool, limit time.Duration) bool {
	end := time.Now().Add(limit)
	for !done() {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(20 * time.Millisecond)
	}
	return true
}

// settle waits a little longer, so that something twice or too much is seen.
func settle(done func() bool) {
	await(done, waitMax)
	time.Sleep(700 * time.Millisecond)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
