package guard

import (
	"os"

	"github.com/dibs-go/dibs/cmd/dibs/internal/procgroup"
)

// setName makes ps and top show the guard under its name: it was started as /proc/self/exe, and they would show "exe".
func setName() { _ = os.WriteFile("/proc/self/comm", []byte(procgroup.GuardName), 0) }
