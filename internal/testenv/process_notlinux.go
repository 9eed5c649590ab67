//go:build !linux

package testenv

import "syscall"

func endWithUs() *syscall.SysProcAttr { return nil }
