package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

var everything = consumer.MessageSelector{}

// pushConcurrent: half is sent before two members join, half when both have queues.
func pushConcurrent(f *Fixture, facts Facts) error {
	out := f.sendSome("push", 30)
	first, second := &Found{}, &Found{}
	f.consume("C", everything, first.collect)
	f.consume("C", everything, second.collect)
	await(func() bool { return first.count()+second.count() >= 30 }, 40*time.Second)
	time.Sleep(2 * time.Second)
	made := f.producer()
	for number := 30; number < 60; number++ {
		label := fmt.Sprintf("push-%d", number)
		result, err := made.SendSync(context.Background(), f.message(label, "TagA"))
		must(err)
		out = append(out, sent(label, result))
	}
	settle(func() bool { return first.count()+second.count() >= 60 })
	facts["sent"], facts["first"], facts["second"] = out, first.all(), second.all()
	return nil
}

// pushOrderly: four chains of ten, each on one queue; one message is refused twice.
func pushOrderly(f *Fixture, facts Facts) error {
	made := f.producer(producer.WithQueueSelector(producer.NewManualQueueSelector()))
	queues := map[int]*primitive.MessageQueue{}
	out := []Facts{}
	for number := 0; number < 40; number++ {
		chain := number % 4
		label := fmt.Sprintf("chain%d-%d", chain, number/4)
		message := f.message(label, "TagA")
		message.Queue = queues[chain]
		if message.Queue == nil {
			message.Queue = &primitive.MessageQueue{Topic: f.topic, BrokerName: f.broker(), QueueId: chain}
			queues[chain] = message.Queue
		}
		result, err := made.SendSync(context.Background(), message)
		must(err)
		out = append(out, sent(label, result))
	}
	found, refused := &Found{}, &Found{}
	f.consume("C", everything, func(message *primitive.MessageExt) consumer.ConsumeResult {
		if message.GetProperty("label") == "chain2-4" && refused.count() < 2 {
			refused.add(received(message))
			return consumer.SuspendCurrentQueueAMoment
		}
		return found.collect(message)
	}, consumer.WithConsumerOrder(true), consumer.WithSuspendCurrentQueueTimeMillis(200*time.Millisecond))
	settle(func() bool { return found.count() >= 40 })
	facts["sent"], facts["received"], facts["refused"] = out, found.all(), refused.all()
	return nil
}

// broker is the name of a broker that has the topic: that of the first send's queue.
func (f *Fixture) broker() string {
	message := primitive.NewMessage(f.topic+"_probe", []byte("where"))
	result, err := f.producer().SendSync(context.Background(), message)
	must(err)
	return result.MessageQueue.BrokerName
}

func pushBroadcast(f *Fixture, facts Facts) error {
	first, second := &Found{}, &Found{}
	for _, found := range []*Found{first, second} {
		f.consume("B", everything, found.collect, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	time.Sleep(time.Second)
	out := f.sendSome("push", 20)
	settle(func() bool { return first.count() >= 20 && second.count() >= 20 })
	facts["sent"], facts["first"], facts["second"] = out, first.all(), second.all()
	return nil
}

func tagFilter(f *Fixture, facts Facts) error {
	return filter(f, facts, consumer.MessageSelector{Type: consumer.TAG, Expression: "TagA || TagC"}, 20)
}

func sqlFilter(f *Fixture, facts Facts) error {
	expression := "color = 'red' AND n BETWEEN 10 AND 20"
	return filter(f, facts, consumer.MessageSelector{Type: consumer.SQL92, Expression: expression}, 3)
}

func filter(f *Fixture, facts Facts, selector consumer.MessageSelector, expected int) error {
	made := f.producer()
	out := []Facts{}
	for number := 0; number < 30; number++ {
		label := fmt.Sprintf("f-%d", number)
		message := f.message(label, []string{"TagA", "TagB", "TagC"}[number%3])
		message.WithProperty("color", []string{"red", "green", "blue"}[number%3])
		message.WithProperty("n", fmt.Sprint(number))
		result, err := made.SendSync(context.Background(), message)
		must(err)
		out = append(out, sent(label, result))
	}
	found := &Found{}
	f.consume("C", selector, found.collect)
	settle(func() bool { return found.count() >= expected })
	facts["sent"], facts["received"] = out, found.all()
	return nil
}

// retryDeadLetters: two of five are refused always, delivered 1 + 2 times, then dead letters.
func retryDeadLetters(f *Fixture, facts Facts) error {
	out := f.sendSome("retry", 5)
	found := &Found{}
	f.consume("C", everything, func(message *primitive.MessageExt) consumer.ConsumeResult {
		found.collect(message)
		label := message.GetProperty("label")
		if strings.HasSuffix(label, "-1") || strings.HasSuffix(label, "-3") {
			return consumer.ConsumeRetryLater
		}
		return consumer.ConsumeSuccess
	}, consumer.WithMaxReconsumeTimes(1))
	// The client asks for level 3 + times: ten seconds.
	await(func() bool { return found.count() >= 3+2*2 }, 40*time.Second)
	time.Sleep(2 * time.Second)
	facts["sent"], facts["received"], facts["group"] = out, found.all(), f.group("C")
	return nil
}

func delayLevels(f *Fixture, facts Facts) error {
	found := &Found{}
	f.consume("C", everything, found.collect)
	made := f.producer()
	out := []Facts{}
	for level := 0; level <= 3; level++ {
		for number := 0; number < 4; number++ {
			label := fmt.Sprintf("level%d-%d", level, number)
			message := f.message(label, "TagA")
			if level > 0 {
				message.WithDelayTimeLevel(level)
			}
			result, err := made.SendSync(context.Background(), message)
			must(err)
			out = append(out, sent(label, result))
		}
	}
	settle(func() bool { return found.count() >= 16 })
	facts["sent"], facts["received"] = out, found.all()
	return nil
}
