package signals

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// ignoredAtStart is the set of signals that this process ignored when it began, as a bit mask. (The Go
// runtime has caught some of them by then.)
func ignoredAtStart() uint64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if hex, ok := strings.CutPrefix(lines.Text(), "SigIgn:"); ok {
			mask, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			if err != nil {
				return 0
			}
			return mask
		}
	}
	return 0
}
