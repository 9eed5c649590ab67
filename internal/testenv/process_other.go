//go:build !unix

package testenv

import (
	"errors"
	"os"
)

func terminate(p *os.Process) error { return p.Kill() }
func freeze(*os.Process) error      { return errors.ErrUnsupported }
func thaw(*os.Process) error        { return nil }
func lockFile(*os.File) error       { return nil }
func alive(int) bool                { return true }
