"""Do the alert rules fire on the faults that they name, and is none fired in a calm hour?"""
