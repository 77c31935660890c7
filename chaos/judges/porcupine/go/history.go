// The history format (chaos/history.py) and the final logs of replicas, as JSON.
package main

import (
	"encoding/json"
	"fmt"
)

type operation struct {
	Process   string   `json:"process"`
	Kind      string   `json:"kind"`
	Value     string   `json:"value"`
	Invoked   float64  `json:"invoked"`
	Completed *float64 `json:"completed"` // null: it may still happen
	Outcome   string   `json:"outcome"`
	Offset    int64    `json:"offset"`
	Log       string   `json:"log"`
}

// UnmarshalJSON reads [offset, value].
func (one *entry) UnmarshalJSON(text []byte) error {
	pair := []interface{}{&one.offset, &one.value}
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return fmt.Errorf("an entry is [offset, value], not %s", text)
	}
	return nil
}

// node → queue → its entries
type replicas map[string]map[string][]entry

type history struct {
	Name       string      `json:"name"`
	Operations []operation `json:"history"`
	Replicas   replicas    `json:"replicas"`
}

func (one *operation) check() error {
	switch one.Outcome {
	case "ok", "fail", "info":
	default:
		return fmt.Errorf("%s of %s: outcome %q is none", one.Kind, one.Process, one.Outcome)
	}
	if one.Completed != nil && *one.Completed < one.Invoked {
		return fmt.Errorf("%s of %s ended before it began", one.Kind, one.Process)
	}
	return nil
}
