package signals

import (
	"bytes"
	"os"

	"github.com/dibs-go/dibs/cmd/dibs/internal/digits"
)

// ignoredAtStart is the set of signals that this process ignored when it began, as a bit mask. (The Go
// runtime has caught some of them by then.)
func ignoredAtStart() uint64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(status, []byte("\nSigIgn:"))
	hex, _, _ := bytes.Cut(rest, []byte("\n"))
	mask, _ := digits.Parse(bytes.TrimSpace(hex), 16) // 0 if that fails
	return mask
}
