//go:build !unix

package dibsdrivertest

import (
	"errors"
	"os"
)

func now() mono { panic("dibsdrivertest: the tests of several processes need a Unix") }

func freeze(*os.Process) error { return errors.ErrUnsupported }

func thaw(*os.Process) error { return errors.ErrUnsupported }

func processorTime() int64 { panic("dibsdrivertest: processor time needs a Unix") }
