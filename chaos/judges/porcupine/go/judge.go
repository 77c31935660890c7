// One history, split by queue, each queue asked about: is there an order that explains everything?
package main

import (
	"fmt"
	"reflect"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// The set of ordered operations is remembered at every step: n*n/8 bytes, 50 MB for so many.
const operationsMax = 20_000

type verdict struct {
	Name       string `json:"name"`
	Verdict    string `json:"verdict"` // valid, invalid, unknown
	Operations int    `json:"operations"`
	Because    string `json:"because"`
}

func (one *verdict) worse(word, because string) {
	if one.Verdict != "invalid" && word != "valid" {
		one.Verdict, one.Because = word, because
	}
}

func judge(given history, model string, patience time.Duration) verdict {
	said := verdict{Name: given.Name, Verdict: "valid"}
	parts := map[string][]operation{}
	for _, one := range given.Operations {
		if err := one.check(); err != nil {
			said.worse("unknown", err.Error())
			return said
		}
		parts[one.Log] = append(parts[one.Log], one)
	}
	for _, node := range given.Replicas {
		for queue := range node {
			parts[queue] = append(parts[queue], []operation{}...)
		}
	}
	if model == "queue" && len(given.Replicas) == 0 {
		said.worse("unknown", "the queue model needs the final log of at least one replica")
		return said
	}
	deadline := time.Now().Add(patience)
	for _, queue := range sorted(parts) {
		logs := logsOf(given.Replicas, queue, model)
		if len(logs) > 1 {
			said.worse("invalid", queue+": the replicas' final logs differ")
		}
		for _, log := range logs {
			steps := register(parts[queue])
			checked := registerModel()
			if model == "queue" {
				steps, checked = inQueue(parts[queue], log), queueModel(log)
			}
			said.Operations += len(steps)
			word, because := ask(checked, steps, time.Until(deadline))
			if because != "" && queue != "" {
				because = queue + ": " + because
			}
			said.worse(word, because)
		}
	}
	return said
}

// logsOf gives each different final log of a queue once; the register has none.
func logsOf(all replicas, queue, model string) [][]entry {
	if model != "queue" {
		return [][]entry{nil}
	}
	var found [][]entry
	for _, node := range sorted(all) {
		log := all[node][queue]
		known := false
		for _, other := range found {
			known = known || len(log) == len(other) && (len(log) == 0 || reflect.DeepEqual(log, other))
		}
		if !known {
			found = append(found, log)
		}
	}
	return found
}

func ask(model porcupine.Model, steps []porcupine.Operation, patience time.Duration) (string, string) {
	if len(steps) > operationsMax {
		return "unknown", fmt.Sprintf("%d operations, at most %d are searched", len(steps), operationsMax)
	}
	if patience <= 0 {
		return "unknown", "out of time"
	}
	switch porcupine.CheckOperationsTimeout(model, steps, patience) {
	case porcupine.Ok:
		return "valid", ""
	case porcupine.Unknown:
		return "unknown", "out of time"
	}
	return "invalid", fmt.Sprintf("no order of %d operations explains every answer", len(steps))
}

func sorted[T any](named map[string]T) []string {
	names := make([]string, 0, len(named))
	for name := range named {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
