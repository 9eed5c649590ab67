//go:build unix

// Package wire is what wrapper and guard say to each other, over two pipes.
package wire

import (
	"io"
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

// A message on the pipe: how many bytes follow (4), N (8), At (8), how long the word is (1), the word, the text. The standard library's encoders
// would do as well, but the guard's start would wait for them.
const head, fixed = 4, 8 + 8 + 1

// maxBytes bounds what is read at once: arguments and variables are shorter on every system.
const maxBytes = 1 << 22

func (m Msg) bytes() []byte {
	b := make([]byte, 0, head+fixed+len(m.Word)+len(m.Text))
	b = put(b, head, uint64(fixed+len(m.Word)+len(m.Text)))
	b = put(b, 8, uint64(m.N))
	b = put(b, 8, uint64(m.At))
	b = append(b, byte(len(m.Word)))
	b = append(b, m.Word...)
	return append(b, m.Text...)
}

// parse is the opposite of bytes, without the head.
func parse(b []byte) (m Msg, ok bool) {
	if len(b) < fixed {
		return m, false
	}
	m.N, m.At = int64(get(b[:8])), Mono(get(b[8:16]))
	word, rest := int(b[16]), b[fixed:]
	if word > len(rest) {
		return m, false
	}
	m.Word, m.Text = string(rest[:word]), string(rest[word:])
	return m, true
}

func put(b []byte, size int, n uint64) []byte {
	for i := size - 1; i >= 0; i-- {
		b = append(b, byte(n>>(8*i)))
	}
	return b
}

func get(b []byte) (n uint64) {
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	return n
}

// writeLimit bounds a write to a peer that does not read.
const writeLimit = 100 * time.Millisecond

// Send writes m. An error is not reported: the peer's end shows by other means, and nothing waits for an answer.
func Send(w io.Writer, m Msg) {
	if d, ok := w.(interface{ SetWriteDeadline(time.Time) error }); ok {
		_ = d.SetWriteDeadline(time.Now().Add(writeLimit))
	}
	_, _ = w.Write(m.bytes())
}

// Receive sends the messages that come in, and closes ch when the pipe ends.
func Receive(r io.Reader, ch chan<- Msg) {
	defer close(ch)
	size := make([]byte, head)
	for {
		if _, err := io.ReadFull(r, size); err != nil {
			return
		}
		n := get(size)
		if n > maxBytes {
			return
		}
		b := make([]byte, n)
		if _, err := io.ReadFull(r, b); err != nil {
			return
		}
		if m, ok := parse(b); ok {
			ch <- m
		}
	}
}
