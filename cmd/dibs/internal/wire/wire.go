//go:build unix

// Package wire is what wrapper and guard say to each other: lines of words over two pipes.
package wire

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Words of the wrapper.
const (
	// Deadline AT: the lease is good until then.
	Deadline = "deadline"
	// Go VARS: start COMMAND, with these variables (between NULs) in its environment.
	Go = "go"
	// Stop REASON: end COMMAND.
	Stop = "stop"
)

// Words of the guard.
const (
	// Started PID: COMMAND runs.
	Started = "started"
	// Failed STATUS MESSAGE: COMMAND could not be run.
	Failed = "failed"
	// Paused SIGNAL: COMMAND was stopped, in the way of job control.
	Paused = "paused"
	// Stopping REASON: COMMAND was sent TERM.
	Stopping = "stopping"
	// Killing: what is left is sent KILL, the guard too.
	Killing = "killing"
	// Ended STATUS AT: COMMAND ended, with this wait status, at that time.
	Ended = "ended"
)

// Reasons for ending COMMAND.
const (
	Lost    = "lost"     // the lease was lost, or is about to be
	MaxHold = "max-hold" // it ran too long
	Alone   = "alone"    // the wrapper is gone
)

// Msg is a word and what belongs to it.
type Msg struct {
	Word string
	N    int64  // PID, STATUS, SIGNAL or AT
	At   Mono   // of Ended
	Text string // REASON, MESSAGE or VARS
}

// String is the line, without its end.
func (m Msg) String() string {
	return fmt.Sprintf("%s %d %d %s", m.Word, m.N, m.At, strconv.QuoteToASCII(m.Text))
}

// Parse is the opposite of String.
func Parse(line string) (Msg, error) {
	f := strings.SplitN(line, " ", 4)
	if len(f) != 4 {
		return Msg{}, fmt.Errorf("%q has %d words", line, len(f))
	}
	m := Msg{Word: f[0]}
	var err error
	if m.N, err = strconv.ParseInt(f[1], 10, 64); err != nil {
		return Msg{}, err
	}
	at, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil {
		return Msg{}, err
	}
	m.At = Mono(at)
	if m.Text, err = strconv.Unquote(f[3]); err != nil {
		return Msg{}, err
	}
	return m, nil
}

// writeLimit bounds a write to a peer that does not read.
const writeLimit = 100 * time.Millisecond

// Send writes m. An error is not reported: the peer's end shows by other means, and nothing waits for an answer.
func Send(w io.Writer, m Msg) {
	if d, ok := w.(interface{ SetWriteDeadline(time.Time) error }); ok {
		_ = d.SetWriteDeadline(time.Now().Add(writeLimit))
	}
	_, _ = io.WriteString(w, m.String()+"\n")
}

// Receive sends the messages that come in, and closes ch when the pipe ends.
func Receive(r io.Reader, ch chan<- Msg) {
	defer close(ch)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if m, err := Parse(lines.Text()); err == nil {
			ch <- m
		}
	}
}
