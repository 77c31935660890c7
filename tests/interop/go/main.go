// Runs named scenarios against a cluster with the official Go client.
//
//	client NAMESERVER PREFIX SCENARIO...   one JSON line per scenario on stdout
//	client failover NAMESERVER TOPIC SENDS_PER_SECOND KEY SECRET   see failover.go
//	client deadnode NAMESERVER TOPIC START_MS FILE THREADS PAUSE_MS   see deadnode.go
//
// Scenarios say what they saw; the harness that started this judges it. They run beside each other,
// each on a topic of its own: PREFIX_scenario.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

// Facts is what a scenario saw.
type Facts map[string]any

// Scenario uses the client and leaves what it saw in the facts.
type Scenario func(f *Fixture, facts Facts) error

var scenarios = map[string]Scenario{
	"send_sync":         sendSync,
	"send_async":        sendAsync,
	"send_oneway":       sendOneway,
	"send_batch":        sendBatch,
	"auto_create":       autoCreate,
	"admin_topics":      adminTopics,
	"push_concurrent":   pushConcurrent,
	"push_orderly":      pushOrderly,
	"push_broadcast":    pushBroadcast,
	"tag_filter":        tagFilter,
	"sql_filter":        sqlFilter,
	"retry_dlq":         retryDeadLetters,
	"delay_levels":      delayLevels,
	"transaction":       transaction,
	"transaction_check": transactionCheck,
	"request_reply":     requestReply,
}

func main() {
	rlog.SetLogLevel("error")
	if os.Args[1] == "failover" {
		failover(os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6])
		return
	}
	if os.Args[1] == "deadnode" {
		deadNode(os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6], os.Args[7])
		return
	}
	nameserver, prefix, names := os.Args[1], os.Args[2], os.Args[3:]
	var answers sync.Mutex
	var all sync.WaitGroup
	for _, name := range names {
		all.Add(1)
		go func(name string) {
			defer all.Done()
			facts := answer(name, &Fixture{nameserver: nameserver, topic: prefix + "_" + name})
			line, _ := json.Marshal(facts)
			answers.Lock()
			defer answers.Unlock()
			fmt.Println(string(line))
		}(name)
	}
	all.Wait()
	os.Exit(0)
}

func answer(name string, f *Fixture) (facts Facts) {
	facts = Facts{"scenario": name}
	began := time.Now()
	defer func() {
		if problem := recover(); problem != nil {
			facts["error"] = fmt.Sprint(problem)
		}
		f.close()
		facts["seconds"] = time.Since(began).Seconds()
	}()
	run, known := scenarios[name]
	if !known {
		facts["error"] = "there is no scenario " + name
		return
	}
	if err := run(f, facts); err != nil {
		facts["error"] = err.Error()
	}
	return
}
