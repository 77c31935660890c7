package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

func (f *Fixture) sendSome(prefix string, count int) []Facts {
	out := []Facts{}
	made := f.producer()
	for number := 0; number < count; number++ {
		label := fmt.Sprintf("%s-%d", prefix, number)
		result, err := made.SendSync(context.Background(), f.message(label, "TagA"))
		must(err)
		out = append(out, sent(label, result))
	}
	return out
}

func sendSync(f *Fixture, facts Facts) error {
	out := f.sendSome("sync", 20)
	made := f.producer()
	noise := make([]byte, 1_000_000)
	rand.New(rand.NewSource(1)).Read(noise)
	for label, body := range map[string][]byte{
		"compressed": bytes.Repeat([]byte("x"), 50_000), "noise": noise,
	} {
		message := f.message(label, "TagA")
		message.Body = body
		result, err := made.SendSync(context.Background(), message)
		must(err)
		out = append(out, sent(label, result))
	}
	facts["sent"] = out
	return nil
}

func sendAsync(f *Fixture, facts Facts) error {
	made := f.producer()
	done, failed := &Found{}, []string{}
	var all sync.WaitGroup
	for number := 0; number < 50; number++ {
		label := fmt.Sprintf("async-%d", number)
		all.Add(1)
		must(made.SendAsync(context.Background(),
			func(_ context.Context, result *primitive.SendResult, err error) {
				defer all.Done()
				if err != nil {
					done.mutex.Lock()
					failed = append(failed, err.Error())
					done.mutex.Unlock()
					return
				}
				done.add(sent(label, result))
			}, f.message(label, "TagA")))
	}
	all.Wait()
	facts["sent"], facts["failed"] = done.all(), failed
	return nil
}

func sendOneway(f *Fixture, facts Facts) error {
	made := f.producer()
	labels := []string{}
	for number := 0; number < 20; number++ {
		label := fmt.Sprintf("oneway-%d", number)
		must(made.SendOneWay(context.Background(), f.message(label, "TagA")))
		labels = append(labels, label)
	}
	time.Sleep(500 * time.Millisecond)
	facts["labels"] = labels
	return nil
}

// sendBatch: the client leaves keys and properties of a batch's items out, so bodies are compared.
func sendBatch(f *Fixture, facts Facts) error {
	made := f.producer()
	messages, labels := []*primitive.Message{}, []string{}
	for number := 0; number < 10; number++ {
		label := fmt.Sprintf("batch-%d", number)
		labels = append(labels, label)
		messages = append(messages, f.message(label, "TagB"))
	}
	result, err := made.SendSync(context.Background(), messages...)
	must(err)
	facts["sent"], facts["labels"] = sent("batch", result), labels
	return nil
}

func autoCreate(f *Fixture, facts Facts) error {
	facts["sent"] = f.sendSome("new", 8)
	return nil
}

func adminTopics(f *Fixture, facts Facts) error {
	made, err := admin.NewAdmin(admin.WithResolver(primitive.NewPassthroughResolver([]string{f.nameserver})))
	must(err)
	defer made.Close()
	list := func() []string {
		found, err := made.FetchAllTopicList(context.Background())
		must(err)
		return found.TopicList
	}
	queues, err := made.FetchPublishMessageQueues(context.Background(), f.topic)
	must(err)
	facts["queues"], facts["topics"] = len(queues), list()
	return nil
}
