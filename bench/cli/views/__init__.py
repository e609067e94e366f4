"""What people see: tables, pictures, and how runs go on."""
