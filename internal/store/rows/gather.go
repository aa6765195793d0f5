package rows

import "runtime"

// maxYields is how often in a row a writer lets others run without a change
// coming of it. After a commit as many changes as it answered are on their way.
const maxYields = 3

// Gather adds the changes that wait to a batch of at most so many, and lets those who are
// about to bring one do so: a commit costs the disk the same for one change as for many.
func Gather[C any](batch []C, most int, changes <-chan C) []C {
	for yielded := 0; len(batch) < most; {
		select {
		case c, more := <-changes:
			if !more {
				return batch
			}
			batch, yielded = append(batch, c), 0
		default:
			if yielded == maxYields {
				return batch
			}
			runtime.Gosched()
			yielded++
		}
	}
	return batch
}
