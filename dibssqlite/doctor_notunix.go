//go:build !unix

package dibssqlite

import "os"

// mayWrite knows the file's own attribute only; the write that is tried after it tells the rest.
func mayWrite(path string, folder bool) error {
	fi, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !folder && fi.Mode().Perm()&0o200 == 0 {
		return &os.PathError{Op: "access", Path: path, Err: os.ErrPermission}
	}
	return nil
}
