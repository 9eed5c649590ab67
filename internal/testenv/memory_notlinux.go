//go:build !linux

package testenv

func memoryDir(other string) string { return other }
