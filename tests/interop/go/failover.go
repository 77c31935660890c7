package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// catchUp is how long a consumer may look for what it was not given: it asks for routes every 30 s.
const catchUp = 45 * time.Second

// failover sends and consumes with an account until stdin says stop; mark asks for counts.
func failover(nameserver, topic, perSecond, key, secret string) {
	f := &Fixture{nameserver: nameserver, topic: topic}
	account := primitive.Credentials{AccessKey: key, SecretKey: secret}
	made := f.producer(producer.WithCredentials(account))
	found := &Found{}
	f.consume("C", everything, found.collect, consumer.WithCredentials(account))
	rate, err := strconv.Atoi(perSecond)
	must(err)
	run := &run{found: found, acks: []Facts{}, failures: []Facts{}}
	over, ended := make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		clock := time.NewTicker(time.Second / time.Duration(rate))
		for number := 0; ; number++ {
			select {
			case <-over:
				return
			case <-clock.C:
			}
			label := fmt.Sprintf("kill-%d", number)
			_, err := made.SendSync(context.Background(), f.message(label, "TagA"))
			run.told(label, err)
		}
	}()
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() && orders.Text() != "stop" {
		run.say(run.counts())
	}
	close(over)
	<-ended
	await(func() bool { return len(run.missing()) == 0 }, catchUp)
	facts := run.counts()
	facts["acks"], facts["failures"] = run.acks, run.failures
	ids := []string{}
	for id := range run.received() {
		ids = append(ids, id)
	}
	facts["received_ids"] = ids
	run.say(facts)
	os.Exit(0)
}

// run is what became of the sends, and what came.
type run struct {
	mutex    sync.Mutex
	sent     int
	acks     []Facts
	failures []Facts
	found    *Found
}

func (r *run) told(label string, err error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.sent++
	if err != nil {
		r.failures = append(r.failures, Facts{"label": label, "error": err.Error()})
		return
	}
	r.acks = append(r.acks, Facts{"label": label, "id": label})
}

func (r *run) received() map[string]bool {
	labels := map[string]bool{}
	for _, one := range r.found.all() {
		labels[one["label"].(string)] = true
	}
	return labels
}

func (r *run) missing() []string {
	labels, out := r.received(), []string{}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, one := range r.acks {
		if label := one["label"].(string); !labels[label] {
			out = append(out, label)
		}
	}
	return out
}

func (r *run) counts() Facts {
	received := len(r.received())
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return Facts{
		"sent": r.sent, "acked": len(r.acks), "failed": len(r.failures), "received": received,
	}
}

func (r *run) say(facts Facts) {
	line, _ := json.Marshal(facts)
	fmt.Println(string(line))
}
