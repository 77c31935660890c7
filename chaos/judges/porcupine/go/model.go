// The two models that porcupine is asked about.
package main

import "github.com/anishathalye/porcupine"

type verb int

const (
	appendAt verb = iota // value stands at offset
	readTail             // offset is the first free place, value the last one
	refused              // must not have happened
	end                  // the log is complete
)

type step struct {
	verb   verb
	offset int64
	value  string
}

type entry struct {
	offset int64
	value  string
}

// position: so many entries of the final log are visible, and this is the first free place.
type position struct {
	visible int
	next    int64
}

// queueModel: a log is what its final content says, made visible entry by entry. Appends take effect
// in the order of the final log, a read of the tail sees exactly what is visible, and at the end
// everything is: what was lost, doubled, invented or reordered leaves no order to be found.
func queueModel(log []entry) porcupine.Model {
	place := make(map[entry]int, len(log))
	for at, one := range log {
		place[one] = at
	}
	return porcupine.Model{
		Init: func() interface{} { return position{} },
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			now, wanted := state.(position), input.(step)
			this := entry{wanted.offset, wanted.value}
			switch wanted.verb {
			case appendAt:
				at, there := place[this]
				if !there || at != now.visible || wanted.offset < now.next {
					return false, now
				}
				return true, position{at + 1, wanted.offset + 1}
			case readTail:
				last := ""
				if now.visible > 0 {
					last = log[now.visible-1].value
				}
				return wanted.value == last && wanted.offset >= now.next,
					position{now.visible, wanted.offset}
			case end:
				return now.visible == len(log), now
			}
			return false, now
		},
	}
}

// registerModel: an append writes, a read sees the last write; offsets and the final log are not
// looked at. Weaker than the queue, and needs nothing but what clients saw.
func registerModel() porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return "" },
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			now, wanted := state.(string), input.(step)
			switch wanted.verb {
			case appendAt:
				return true, wanted.value
			case readTail:
				return wanted.value == now, now
			}
			return false, now
		},
	}
}
