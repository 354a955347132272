"""What tests share: strategies that follow the wire tables, and the properties every codec has."""
