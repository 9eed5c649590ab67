package testenv

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// template returns a folder that make has filled once, for all tests of this machine: to set up a data folder takes much longer than to copy it. name
// changes with whatever make depends on.
func template(name string, make func(dir string) error) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	base = filepath.Join(base, "dibs-test")
	if err := os.MkdirAll(base, 0o700); err != nil {
		return "", err
	}
	dir := filepath.Join(base, name)
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := lockFile(lock); err != nil {
		return "", err
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	half := dir + ".new"
	if err := os.RemoveAll(half); err != nil {
		return "", err
	}
	if err := os.Mkdir(half, 0o700); err != nil {
		return "", err
	}
	if err := make(half); err != nil {
		return "", fmt.Errorf("making %s: %w", dir, err)
	}
	return dir, os.Rename(half, dir)
}

// tempDir makes a folder for a server, and removes those of test processes that were killed: each may have a hundred megabytes.
func tempDir(kind string) (string, error) {
	in := os.TempDir()
	if testing.Testing() { // what is measured elsewhere is measured on a disk
		in = memoryDir(in)
	}
	for _, dir := range []string{os.TempDir(), in} {
		left, err := filepath.Glob(filepath.Join(dir, "dibs-server-*"))
		if err != nil {
			return "", err
		}
		for _, dir := range left {
			var pid int
			if _, err := fmt.Sscanf(filepath.Base(dir), "dibs-server-%d-", &pid); err == nil && !alive(pid) {
				_ = os.RemoveAll(dir)
			}
		}
	}
	return os.MkdirTemp(in, fmt.Sprintf("dibs-server-%d-%s", os.Getpid(), kind))
}

// copyTree copies files and folders.
func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case e.IsDir():
			return os.MkdirAll(target, 0o700)
		case e.Type().IsRegular():
			return copyFile(target, path)
		}
		return nil // sockets
	})
}

func copyFile(to, from string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.Copy(dst, src); err != nil {
		dst.Close()
		return err
	}
	return dst.Close()
}
