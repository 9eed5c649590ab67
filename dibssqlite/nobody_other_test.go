//go:build !unix

package dibssqlite

import "os/exec"

func becomeNobody(*exec.Cmd) {}
