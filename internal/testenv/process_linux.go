package testenv

import "syscall"

// endWithUs: a server does not outlive the tests, even if those are killed.
func endWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
