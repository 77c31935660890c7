// From what clients saw to what porcupine orders.
package main

import (
	"math"
	"sort"

	"github.com/anishathalye/porcupine"
)

// inQueue: an append of unknown outcome is placed by the final log: absent, it never happened;
// present, it has that place and no end.
func inQueue(operations []operation, log []entry) []porcupine.Operation {
	at := make(map[string]int64, len(log))
	for _, one := range log {
		at[one.value] = one.offset
	}
	var steps []timed
	last := math.Inf(-1)
	for _, one := range operations {
		last = math.Max(last, math.Max(one.Invoked, one.until(last)))
		offset, held := at[one.Value]
		switch {
		case one.Kind == "append" && one.Outcome == "ok":
			steps = append(steps, one.step(appendAt, one.Offset))
		case one.Kind == "append" && held && one.Outcome == "fail":
			steps = append(steps, one.step(refused, offset))
		case one.Kind == "append" && held:
			one.Completed = nil
			steps = append(steps, one.step(appendAt, offset))
		case one.Kind == "read" && one.Outcome == "ok":
			steps = append(steps, one.step(readTail, one.Offset))
		}
	}
	steps = append(steps, timed{step{verb: end}, math.Nextafter(last, math.Inf(1)), math.Inf(1)})
	return ranked(steps)
}

// register: a write of unknown outcome that nobody saw can stand behind everything, so it is left
// out; one that was seen has no end. Without this a search takes 2^k steps for k of them.
func register(operations []operation) []porcupine.Operation {
	seen := map[string]bool{}
	for _, one := range operations {
		if one.Kind == "read" && one.Outcome == "ok" {
			seen[one.Value] = true
		}
	}
	var steps []timed
	for _, one := range operations {
		switch {
		case one.Kind == "append" && one.Outcome == "ok":
			steps = append(steps, one.step(appendAt, 0))
		case one.Kind == "append" && one.Outcome == "info" && seen[one.Value]:
			one.Completed = nil
			steps = append(steps, one.step(appendAt, 0))
		case one.Kind == "read" && one.Outcome == "ok":
			steps = append(steps, one.step(readTail, 0))
		}
	}
	return ranked(steps)
}

type timed struct {
	step  step
	begin float64
	end   float64
}

func (one *operation) until(never float64) float64 {
	if one.Completed == nil {
		return never
	}
	return *one.Completed
}

func (one *operation) step(verb verb, offset int64) timed {
	return timed{step{verb, offset, one.Value}, one.Invoked, one.until(math.Inf(1))}
}

// ranked replaces times by their ranks: nothing is rounded, equal times stay equal.
func ranked(steps []timed) []porcupine.Operation {
	var moments []float64
	for _, one := range steps {
		moments = append(moments, one.begin, one.end)
	}
	sort.Float64s(moments)
	rank := func(moment float64) int64 { return int64(sort.SearchFloat64s(moments, moment)) }
	operations := make([]porcupine.Operation, len(steps))
	for at, one := range steps {
		operations[at] = porcupine.Operation{
			ClientId: at, Input: one.step, Call: rank(one.begin), Return: rank(one.end),
		}
	}
	return operations
}
