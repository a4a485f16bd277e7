"""What an agent does in its trials, counted from its calls: of any harness, since all call tools."""
