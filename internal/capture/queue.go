package capture

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/boocode/filestore/internal/vfs"
)

// A task is a piece of a directory's work: to start it, or to visit the names
// from lo to hi.
type task struct {
	job    *dirJob
	lo, hi int
}

const startDir = -1

// A queue is where the workers take their tasks from: the newest first, so
// that few directories are open at a time.
type queue struct {
	mu      sync.Mutex // guards the rest
	cond    sync.Cond
	tasks   []task
	left    int // tasks queued or being done
	stopped bool
}

func (q *queue) push(tasks ...task) {
	q.mu.Lock()
	q.tasks = append(q.tasks, tasks...)
	q.left += len(tasks)
	q.mu.Unlock()
	if len(tasks) == 1 {
		q.cond.Signal()
	} else {
		q.cond.Broadcast()
	}
}

// pop returns the next task. It reports false when all are done.
func (q *queue) pop() (task, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.tasks) == 0 {
		if q.left == 0 {
			return task{}, false
		}
		q.cond.Wait()
	}
	t := q.tasks[len(q.tasks)-1]
	q.tasks = q.tasks[:len(q.tasks)-1]
	return t, true
}

// finished tells that a task is done, with all tasks that it led to queued.
func (q *queue) finished() {
	q.mu.Lock()
	q.left--
	idle := q.left == 0
	q.mu.Unlock()
	if idle {
		q.cond.Broadcast()
	}
}

// abandon ends the queue: somebody will not finish a task.
func (q *queue) abandon() {
	q.mu.Lock()
	q.stopped, q.left, q.tasks = true, 0, nil
	q.mu.Unlock()
	q.cond.Broadcast()
}

func (q *queue) stop() {
	q.mu.Lock()
	q.stopped = true
	q.mu.Unlock()
}

func (q *queue) isStopped() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stopped
}

// work does the tasks in the queue, and all that these lead to, on so many goroutines.
func (c *capture) work(workers int) {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var wg sync.WaitGroup
	for n := range workers {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil { // no harm to others in a process that stays
					c.fail(fmt.Errorf("internal error: %v\n%s", p, debug.Stack()))
					c.queue.abandon()
				}
			}()
			w := &worker{n: n, c: c}
			for {
				t, ok := c.queue.pop()
				if !ok {
					return
				}
				w.do(t)
			}
		})
	}
	wg.Wait()
}

// A worker does tasks. What it holds is reused from one to the next.
type worker struct {
	n    int   // which of the capture's it is, from 0 on
	most int64 // how large the file may be that is read
	c    *capture
	st   vfs.Stat
	buf  []byte
}

func (w *worker) do(t task) {
	defer w.c.queue.finished()
	j := t.job
	if t.lo == startDir {
		j.start(w)
		return
	}
	if !w.c.queue.isStopped() {
		j.visitRange(w, t.lo, t.hi)
	}
	if j.ranges.Add(-1) == 0 {
		j.visited()
	}
}
