"""Is there anything to do?"""
