//go:build !unix

package dibssqlite

import (
	"context"
	"errors"
	"os/exec"
)

func becomeNobody(*exec.Cmd) {}

func fullRole(context.Context, []string) error { return errors.ErrUnsupported }
