"""Of whom was first seen in a week, how many are active in the weeks after."""
