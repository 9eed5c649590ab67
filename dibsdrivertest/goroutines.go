package dibsdrivertest

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strconv"
	"testing"
	"time"
)

// caseLabel is on the goroutines of a case: whoever starts one passes it on, so that those of cases that run side by side can be told apart.
const caseLabel = "dibs test"

func label(t *testing.T) {
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(caseLabel, t.Name())))
}

// back requires that the case has no more goroutines than before.
func (e *env) back(base int, within time.Duration, after string) {
	e.Helper()
	end := time.Now().Add(within)
	for n := e.goroutines(); n > base; n = e.goroutines() { // which stops all others for a moment
		if time.Now().After(end) {
			e.Fatalf("%d goroutines, %s after: %s; before there were %d", n, within, after, base)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// goroutines is how many the case has, without those of proxies: one that each connection costs is the test's, not the driver's.
func (e *env) goroutines() (n int) {
	e.Helper()
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		e.Fatal(err)
	}
	mine := []byte(strconv.Quote(caseLabel) + ":" + strconv.Quote(e.Name()))
	_, stacks, _ := bytes.Cut(all.Bytes(), []byte("\n")) // the sum of all
	for stack := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		if !bytes.Contains(stack, mine) || bytes.Contains(stack, []byte("dibsdrivertest.(*Proxy)")) {
			continue
		}
		var alike int
		if _, err := fmt.Fscanf(bytes.NewReader(stack), "%d @", &alike); err != nil {
			e.Fatalf("a goroutine profile of another form: %v: %s", err, stack)
		}
		n += alike
	}
	if n == 0 {
		e.Fatal("the case's own goroutine was not found")
	}
	return n
}
