//go:build unix

package dibssqlite

import (
	"io/fs"
	"syscall"
)

// The modes of access(2), which package syscall does not name.
const (
	executable = 1
	writable   = 2
	readable   = 4
)

// mayWrite asks the system without opening the file: closing it again would drop the locks that this process has on it.
func mayWrite(path string, folder bool) error {
	mode := uint32(readable | writable)
	if folder {
		mode |= executable
	}
	if err := syscall.Access(path, mode); err != nil {
		return &fs.PathError{Op: "access", Path: path, Err: err}
	}
	return nil
}
