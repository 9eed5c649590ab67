//go:build !linux

package dibssqlite

import "errors"

func fileSystemOf(string) (name string, r reach, free uint64, err error) {
	return "", unknownReach, 0, errors.ErrUnsupported
}
