package guard

// Main refuses: there are no process groups to lead.
func Main([]string) int { return 64 }
